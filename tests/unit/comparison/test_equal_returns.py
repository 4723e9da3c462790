"""The table of two engines' returns, from a study's runs."""

import pytest

from benchmarks.comparisons.equal_returns import rows_of


def test_a_seed_whose_run_has_not_finished_is_named_and_not_left_out(tmp_path):
    for seed in (3, 12):
        folder = tmp_path / "runs" / f"base-s{seed}"
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(f"seed = {seed}\n")
    with pytest.raises(SystemExit, match=r"have not all finished: 3, 12$"):
        rows_of(tmp_path)
