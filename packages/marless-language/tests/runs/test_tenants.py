"""Runs of several tenants on one pool, by one language model: examples/tenants.toml with fewer seeds and rounds."""

import json
from pathlib import Path

import pytest
from commands import Commands
from language_runs import relay_base
from studies import hashes

from marless.studies.study import Study
from marless.studies.study_file import load

EXAMPLES = Path(__file__).parents[4] / "examples"
TENANTS = EXAMPLES / "tenants.toml"
SMALL = {
    "base.model": "relay.safetensors",
    "stop.rounds": 2,
    "actors.num_envs": 16,
    "evaluation.every": 2,
    "evaluation.episodes": 8,
    "evaluation.final_episodes": 8,
}


def test_thirty_two_runs_share_one_model():
    study = Study(Path("studies/tenants"), load(TENANTS), range(1, 9))
    study.begin()
    runs = list(study.runs)
    assert len(runs) == 32 and len({run.owner for run in runs}) == 4
    assert all((run.config.task.name, run.config.base.model) == ("text/relay", None) for run in runs)


@pytest.mark.slow
def test_tenants_share_processes_and_model_with_equal_bytes(tmp_path, shell, capfd):
    shell.cd(tmp_path)
    Path("relay.safetensors").write_bytes(relay_base())
    marless, file = Commands(capfd), TENANTS.read_text()
    file = file.replace('"relay.toml"', json.dumps(str(EXAMPLES / "relay.toml"))).replace('"1-8"', '"3"')
    for name, value in SMALL.items():
        file = "\n".join(line for line in file.splitlines() if not line.startswith(name))
        file = file.replace("[base]", f"[base]\n{name} = {json.dumps(value)}", 1)
    Path("few.toml").write_text(f"pool.workers = 2\n{file}")
    assert marless("study", "few.toml").code == 0
    folders = sorted(Path("studies/few/runs").iterdir())
    for folder in folders:
        assert marless("train", str(folder / "config.toml"), "--run", folder.name, "--workers", "1").code == 0
    assert hashes(tmp_path / "studies/few") == hashes(tmp_path) and len(hashes(tmp_path)) == 4
    # A process that served one run alone would have a successor.
    assert len(list(Path("studies/few/workers").glob("[0-9]*.log"))) <= 2
    bases = [path for folder in folders for path in folder.glob("objects/rounds/model-*base*")]
    assert len(bases) == 4 and len({path.stat().st_ino for path in bases}) == 1
    assert bases[0].stat().st_ino != Path("relay.safetensors").stat().st_ino
    assert bases[0].read_bytes() == relay_base()
