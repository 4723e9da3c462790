"""Runs of the command line in an emulated account: started detached, and compared with local runs."""

import json

from marless.functions.function_specs import NAMES

# The sweep soon gives up a task with a lost event, and the invoker a killed function.
SOON, QUICK = (tuple(f"functions.{name}.timeout_s={seconds}" for name in NAMES) for seconds in (10, 2))


def summary(home, name):
    return json.loads((home / "runs" / name / "summary.json").read_text())


PLAYED = ("final_return", "absolute_return", "final_env_metrics", "absolute_env_metrics")
SAME = ("weights_sha256", *PLAYED, "rounds", "env_steps")


def same(found, expected):
    assert found["status"] == "finished"
    assert {key: found[key] for key in SAME} == {key: expected[key] for key in SAME}


def detach(marless, name, *settings):
    said = marless.train(name, *settings, "--backend", "emulated", "--detach")
    assert said.code == 0, said.err
