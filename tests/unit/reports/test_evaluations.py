import json

import pytest

from marless.functions.environments.base import EnvTask
from marless.reports.evaluations import Evaluation, document, names


@pytest.mark.parametrize(
    ("name", "agents", "expected"),
    [
        ("mpe/simple_spread", 3, ("mpe", "simple_spread-3")),
        ("mpe/simple_spread", None, ("mpe", "simple_spread")),
        ("toy", 2, ("toy", "toy-2")),
        ("smac/3s5z", None, ("smac", "3s5z")),
        ("SMAC/MMM2", None, ("smac", "mmm2")),
        ("pettingzoo:mpe2.simple_spread_v3:parallel_env", None, ("mpe2", "simple_spread_v3")),
        ("pettingzoo:mpe2.simple_spread_v3:parallel_env", 6, ("mpe2", "simple_spread_v3-6")),
        ("pettingzoo:pettingzoo.butterfly.pistonball_v6:parallel_env", None, ("pettingzoo.butterfly", "pistonball_v6")),
        ("pettingzoo:my_games:grid_world", None, ("my_games", "grid_world")),
        ("pettingzoo:my_game:env", None, ("pettingzoo", "my_game")),
        ("pettingzoo:small_pong:make", None, ("pettingzoo", "small_pong")),
        ("pettingzoo:my_games.pong:make_env", None, ("my_games", "pong")),
    ],
)
def test_a_task_is_filed_under_its_environment(name, agents, expected):
    assert names(EnvTask(name=name, agents=agents)) == expected


def test_document_has_layout_of_marl_eval():
    evaluations = [
        Evaluation(step_count=0, returns=(-80.0, -79.5)),
        Evaluation(step_count=4000, returns=(-60.25, -58.0)),
    ]
    built = document(EnvTask(name="mpe/simple_spread", agents=3), "mappo", 7, evaluations, [-55.0, -54.0, -53.5])
    assert built == {
        "mpe": {
            "simple_spread-3": {
                "mappo": {
                    "seed_7": {
                        "step_0": {"step_count": 0, "return": [-80.0, -79.5]},
                        "step_1": {"step_count": 4000, "return": [-60.25, -58.0]},
                        "absolute_metrics": {"return": [-55.0, -54.0, -53.5]},
                    }
                }
            }
        }
    }


def test_environment_metrics_have_one_value():
    evaluations = [Evaluation(step_count=8, returns=(1.0, 3.0), env_metrics={"Win": 0.5, "lost": 0.25})]
    built = document(EnvTask(name="smax/8m"), "mappo", 7, evaluations, [2.0], {"Win": 0.75, "lost": 0.0})
    assert built["smax"]["8m"]["mappo"]["seed_7"] == {
        "step_0": {"step_count": 8, "return": [1.0, 3.0], "win": [0.5], "lost": [0.25]},
        "absolute_metrics": {"return": [2.0], "win": [0.75], "lost": [0.0]},
    }


def test_environment_metric_replaces_no_return_or_count():
    taken = {"return": 0.5, "step_count": 7.0}
    built = document(
        EnvTask(name="toy"), "ippo", 1, [Evaluation(step_count=8, returns=(1.0,), env_metrics=taken)], [2.0], taken
    )
    assert built["toy"]["toy"]["ippo"]["seed_1"] == {
        "step_0": {"step_count": 8, "return": [1.0]},
        "absolute_metrics": {"return": [2.0]},
    }


def test_absolute_metric_is_last_as_marl_eval_expects():
    evaluations = [Evaluation(step_count=step, returns=(0.0,)) for step in range(12)]
    (run,) = document(EnvTask(name="toy"), "ippo", 1, evaluations, [0.0])["toy"]["toy"]["ippo"].values()
    assert list(run)[-1] == "absolute_metrics"
    assert list(run)[:12] == [f"step_{index}" for index in range(12)]


def test_returns_keep_every_digit_through_json():
    exact = (0.1 + 0.2, -1 / 3, -79.99999999999999)
    built = document(EnvTask(name="toy"), "ippo", 1, [Evaluation(step_count=1, returns=exact)], exact)
    run = json.loads(json.dumps(built))["toy"]["toy"]["ippo"]["seed_1"]
    assert tuple(run["step_0"]["return"]) == exact
    assert tuple(run["absolute_metrics"]["return"]) == exact
