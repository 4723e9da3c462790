"""The runs of the benchmark of tenants: the example's runs, and models that differ only by their hash."""

import tomllib
from pathlib import Path

import pytest

pytest.importorskip("torch")

import numpy as np
from language_runs import relay_base
from small_bases import base_of

from benchmarks.tenants.measure import padded
from benchmarks.tenants.workload import computing, large, waiting
from marless.studies.study import Study
from marless.studies.study_file import parse


@pytest.mark.parametrize(
    ("work", "count"), [(computing(5), 32), (waiting(2, 0.1), 32), (large(4, Path("model.safetensors")), 8)]
)
def test_example_runs_may_have_one_model_per_tenant(work, count, tmp_path):
    models = [Path(f"{number}.safetensors") for number in range(4)]
    for several, wanted in ((), 1), (models, 4):
        file = parse(tomllib.loads(work.file(models=several)), "study.toml", tmp_path)
        study = Study(tmp_path, file, range(1, 1 + count // 4))
        study.begin()
        runs = list(study.runs)
        assert len(runs) == count and len({run.config.base.model for run in runs}) == wanted
        assert {run.config.task.name for run in runs} == {work.task}


def test_padded_model_is_same_model_in_other_file():
    body = relay_base()
    copy = padded(body, 3)
    assert len(copy) == len(body) + 24
    ours, theirs = base_of(body).weights, base_of(copy).weights
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
