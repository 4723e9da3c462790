"""Pages for people who come from other libraries: whole files that load, and the names that both tables have."""

import csv
import re
import tomllib

import pytest

from marless.coordinator.config.foreign_names import PEERS
from marless.coordinator.config.loading import load
from scripts.reference.pages import ROOT
from scripts.reference.peers import LIBRARIES

EXAMPLES = ROOT / "examples"


def files(path):
    return re.findall(r"```toml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_page_has_two_whole_files_that_train(library, tmp_path):
    texts = files(LIBRARIES[library])
    assert len(texts) == 2
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.toml"
        path.write_text(text, encoding="utf-8")
        config = load(path, [])
        assert config.stop.env_steps is not None and config.algorithm.name in text


def test_files_of_epymarl_page_are_examples():
    presets = [EXAMPLES / f"epymarl_{name}_mpe.toml" for name in ("mappo", "qmix")]
    for text, preset in zip(files(LIBRARIES["EPyMARL"]), presets, strict=True):
        assert tomllib.loads(text) == tomllib.loads(preset.read_text(encoding="utf-8"))


def test_best_epymarl_evaluation_is_highest_of_record():
    record = ROOT / "docs" / "results" / "epymarl-ports.csv"
    page = record.with_suffix(".md").read_text(encoding="utf-8")
    rows = list(csv.DictReader(record.read_text(encoding="utf-8").splitlines()))
    finals = [row for row in rows if row["evaluation"] == "final policies"]
    assert len(finals) == 3
    for final in finals:
        on_the_way = [row for row in rows if row["seed"] == final["seed"] and row["preset"] == final["preset"]]
        on_the_way.remove(final)
        best = max(on_the_way, key=lambda row: float(row["mean"]))
        [line] = [line for line in page.splitlines() if line.startswith(f"| `{final['preset']}` | {final['seed']} |")]
        assert f"| {float(best['mean']):.1f} after {int(best['env_steps']):,} |" in line


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_answered_foreign_name_is_in_its_page(library):
    page = LIBRARIES[library].read_text(encoding="utf-8")
    assert [name for name in PEERS[library] if f"| `{name}` |" not in page] == []
