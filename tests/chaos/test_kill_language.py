"""Agents that speak: drivers and workers killed at random moments, and the adapters are the same bytes."""

import pytest

pytest.importorskip("torch")

from driver import stored_inputs_of, train
from killed_runs import kill_at_random
from language_runs import RELAY, relay_base

OPTIONS = (
    *(setting for setting in RELAY if not setting.startswith("stop.")),
    "base.rank=2",
    "base.layers=1",
    "actors.rollouts=3",
    "checkpoint_every=4",
    "evaluation.every=12",
)


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize(
    ("kills", "rounds"),
    [
        pytest.param(2, 24, marks=pytest.mark.slow, id="2 kills"),
        pytest.param(50, 400, marks=pytest.mark.conformance, id="50 kills"),
    ],
)
def test_kills_change_no_byte_of_what_roles_learn(tmp_path, draw, kills, rounds, lag):
    base = tmp_path / "relay.safetensors"
    base.write_bytes(relay_base())
    options = (*OPTIONS, f"base.model={base}", f"stop.rounds={rounds}", f"pipeline.lag={lag}")
    folder, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    expected = train(undisturbed, options, workers=2, inputs=stored_inputs_of(undisturbed, options))
    kill_at_random(folder, kills, rounds, draw, options)
    killed = train(folder, options, workers=3, inputs=stored_inputs_of(folder, options))
    assert killed.state.status == "finished"
    assert killed.sha256 == expected.sha256
    assert killed.state.final == expected.state.final
    assert [(line.round, line.env_steps, line.return_mean) for line in killed.lines] == [
        (line.round, line.env_steps, line.return_mean) for line in expected.lines
    ]
