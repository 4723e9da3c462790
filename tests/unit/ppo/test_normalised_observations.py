"""The data for statistics of inputs. Whole rounds are compared in tests/unit/algorithms/test_any_policy.py."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import SIZE, context, spec

from marless.functions.algorithms import registry
from marless.functions.algorithms.specification import Share
from marless.functions.learner import stages
from marless.functions.messages.team import Team

SMALL = {"hidden": [8, 8], "epochs": 1, "num_minibatches": 2, "normalise_observations": True}
APART, MERGED = Team(groups=(0, 1, 2), identity=True), Team(groups=(0, 1, 0), identity=True)


def after_a_round(found, algorithm):
    names = [stage.name for stage in algorithm.stages]
    return stages.run(algorithm, registry.implementation(algorithm), found, Share(names, [0, 1])).tensors


@pytest.mark.parametrize("name", ["ippo", "mappo"])
def test_observations_of_living_agents_count_and_nothing_else(name):
    """Without a state of the environment's own the critic of `mappo` sees all observations side by side, zeros of the
    dead among them."""
    found, algorithm = context(name, spec("one choice", state_size=0), SMALL)
    batch, tensors = found.batch, after_a_round(found, algorithm)
    living = {agent: batch.of(batch.observations, agent)[batch.alive[agent]] for agent in range(3)}
    own = np.concatenate([living[0], living[2]])
    wanted = [np.full(SIZE, len(own)), own.mean(axis=0), len(own) * own.var(axis=0)]
    np.testing.assert_allclose(tensors["policy/g00/seen"], wanted, rtol=1e-12)
    if name == "ippo":
        np.testing.assert_allclose(tensors["critic/g00/seen"], wanted, rtol=1e-12)
        return
    for other in range(3):  # as agents 0 and 2, while alive, see it
        rows = np.concatenate(
            [batch.of(batch.observations, other)[batch.alive[agent] & batch.alive[other]] for agent in (0, 2)]
        )
        block = tensors["critic/g00/seen"][:, other * SIZE : (other + 1) * SIZE]
        np.testing.assert_allclose(
            block, [np.full(SIZE, len(rows)), rows.mean(axis=0), len(rows) * rows.var(axis=0)], rtol=1e-11
        )
    assert len(np.unique(tensors["critic/g00/seen"][0])) > 1


def test_merged_network_is_taught_on_its_own_inputs():
    """Members with the networks and statistics of the base have nothing to teach it. Other statistics do."""
    made = spec("one choice")
    found, algorithm = context("ippo", made, SMALL)
    code, state, rng = registry.implementation(algorithm), {}, np.random.default_rng(5)
    for group in (0, 1, 2):
        state |= code.initialise(made, APART, found.config, 3, group)
    for part in ("policy", "critic"):
        for key in [key for key in state if key.startswith(f"{part}/g02/")]:
            state[key] = state[key.replace("g02", "g00")] = 3 * rng.standard_normal(state[key].shape)
        seen = np.stack([np.full(SIZE, 10.0), rng.standard_normal(SIZE), rng.uniform(1, 90, SIZE)])
        state[f"{part}/g02/seen"] = state[f"{part}/g00/seen"] = seen
    apart = replace(found, team=APART, tensors=state)
    assert code.merge(apart, MERGED, 0, 2, 1).metrics["distil_kl_before"] == pytest.approx(0, abs=1e-12)
    state["policy/g00/seen"] = np.stack([np.full(SIZE, 10.0), np.ones(SIZE), np.full(SIZE, 40.0)])
    assert code.merge(apart, MERGED, 0, 2, 1).metrics["distil_kl_before"] > 0.01


def test_reports_use_new_policies_with_new_statistics():
    found, algorithm = context("ippo", spec("one choice"), SMALL)
    code, tensors = registry.implementation(algorithm), after_a_round(found, algorithm)
    table = code.SUMMARIES["behaviour"](found, tensors, 0).tables[0]
    unlike = tensors | {"policy/g00/seen": np.zeros((3, SIZE))}
    assert np.abs(code.SUMMARIES["behaviour"](found, unlike, 0).tables[0] - table).max() > 1e-5
    # The policy's statistics before the round do not affect its report.
    before = replace(found, tensors=found.tensors | {"policy/g00/seen": np.ones((3, SIZE))})
    np.testing.assert_array_equal(code.SUMMARIES["behaviour"](before, tensors, 0).tables[0], table)
