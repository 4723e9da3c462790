"""Short runs have the published hashes on any machine, from first weights to the last evaluation."""

import tomllib
from pathlib import Path

import pytest
from built_kernels import needs_kernels
from driver import train

from marless.backends import inline

PUBLISHED = tomllib.loads((Path(__file__).parents[3] / "docs/data/hashes.toml").read_text("utf-8"))


@needs_kernels
@pytest.mark.parametrize("run", PUBLISHED["runs"], ids=lambda run: "-".join(run["settings"][:2]))
def test_a_short_run_comes_to_the_published_hash(run, tmp_path):
    trained = train(tmp_path / "run", [*PUBLISHED["settings"], *run["settings"]], back_end=inline.BACKEND.open)
    assert trained.sha256 == run["weights_sha256"]
