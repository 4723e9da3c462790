"""Whole rounds in one function give the same bytes as separate functions, under any placement of those."""

import functools

import msgspec
import numpy as np
import pytest
from simulated import MemoryStorage
from task_fields import ask, changed, make_task

from marless.coordinator.placement.placement_rules import LEARNER_PLACEMENTS, packs
from marless.functions import codec, keys
from marless.functions.actor.handler import handle as act
from marless.functions.algorithms import registry as algorithms
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.learner.handler import handle as learn
from marless.functions.learner.update import update
from marless.functions.messages.actor import Behaviour, SampleTask
from marless.functions.messages.exchange import Done
from marless.functions.messages.learner import InitialiseTask, LearnTask, WholeTask
from marless.functions.messages.team import Team

OPTIONS = {"masked": True, "elimination": True, "horizon": 3}
SCENES = {
    "separate": (EnvTask(name="toy/signal", agents=3, options={**OPTIONS, "mixed": True}), Team(groups=(0, 1, 2))),
    "with identity": (EnvTask(name="toy/signal", agents=3, options=OPTIONS), Team(groups=(0, 1, 2), identity=True)),
    "shared": (EnvTask(name="toy/signal", agents=3, options=OPTIONS), Team(groups=(0, 1, 0), identity=True)),
    "mpe": (EnvTask(name="mpe/simple_adversary", options={"max_cycles": 4}), Team(groups=(0, 1, 1), identity=True)),
    "memory": (EnvTask(name="toy/signal", agents=3, options=OPTIONS), Team(groups=(0, 1, 0), identity=True)),
    "numbers": (
        EnvTask(name="mpe/simple_spread", options={"max_cycles": 4, "continuous_actions": True}),
        Team(groups=(0, 1, 1), identity=True),
    ),
}
FIRST, ROUNDS, ROLLOUTS, NUM_ENVS, STEPS = 4, 3, (0, 1, 2), 5, 7
SETTINGS = {"hidden": [8, 6], "num_minibatches": 3, "epochs": 2, "lr": 0.01, "value_decay": 0.9}
MORE = {
    "memory": {"recurrent": True, "data_chunk_length": 3},
    "numbers": {"recurrent": True, "data_chunk_length": 2, "reward": "team"},
}
SUMMARIES = ("behaviour", "density", "curvature", "noise")


class Run:
    def __init__(self, name, scene):
        self.environment, self.team = SCENES[scene]
        self.blobs, self.algorithm = MemoryStorage(), algorithms.algorithm(name)
        settings = {**SETTINGS, **MORE.get(scene, {})}
        self.learning = {"algorithm": name, "hyperparameters": settings, "spec": registry.spec(self.environment)}
        drawn = self.done(learn, self.task(InitialiseTask, 0, "initialise", **self.learning))
        self.state = tuple(drawn.objects.values())

    def task(self, kind, round_, work, **fields):
        return make_task(
            kind, id=keys.task_id("run", round_, work), run="run", round=round_, seed=3,
            output=keys.output_prefix(round_, work), timeout_s=9.0, team=self.team, **fields,
        )  # fmt: skip

    def done(self, handler, task):
        answer = ask(handler, task, self.blobs)
        assert isinstance(answer, Done), str(answer)
        return answer

    def whole(self, **changes):
        fields = {
            "environment": self.environment, "rollouts": ROLLOUTS, "num_envs": NUM_ENVS, "rollout_length": STEPS,
            "behaviours": (Behaviour(),) * ROUNDS,
            "state": self.state, "summaries": SUMMARIES, **self.learning, **changes,
        }  # fmt: skip
        return self.task(WholeTask, FIRST, "whole", **fields)

    def sampled(self, round_, per_invocation):
        return [
            self.done(act, self.task(
                SampleTask, round_, f"sample/{keys.rollouts_name(pack)}", environment=self.environment,
                num_envs=NUM_ENVS, policies=self.policies(), rollouts=pack, rollout_length=STEPS,
            ))
            for pack in packs(len(ROLLOUTS), per_invocation)
        ]  # fmt: skip

    def learnt(self, round_, rule, trajectories):
        answers, published = [], ()
        for wave in LEARNER_PLACEMENTS[rule](self.algorithm.stages, sorted(set(self.team.groups))):
            found = [
                self.done(learn, self.task(
                    LearnTask, round_, work.name, stages=work.stages, groups=work.groups, rollouts=ROLLOUTS,
                    trajectories=trajectories, state=self.state, tensors=published, publish_tensors=work.publish,
                    summaries=SUMMARIES, **self.learning,
                ))
                for work in wave
            ]  # fmt: skip
            published += tuple(done.objects["tensors"] for done in found if "tensors" in done.objects)
            answers += found
        return answers

    def policies(self):
        return tuple(ref for ref in self.state if ".policies." in ref.key)

    def tensors(self, refs):
        return functools.reduce(dict.__or__, (codec.decode(self.blobs[ref.key], ref.key) for ref in refs), {})


@functools.cache
def whole(name, scene):
    run = Run(name, scene)
    return run, run.done(learn, run.whole())


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("rule", "per_invocation"), [("packed", 3), ("fused", 1), ("split", 2)])
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("name", ["ippo", "mappo"])
def test_chained_rounds_give_bytes_of_separate_functions(name, scene, rule, per_invocation):
    together, done = whole(name, scene)
    run = Run(name, scene)
    for number in range(ROUNDS):
        sampled = run.sampled(FIRST + number, per_invocation)
        learnt = run.learnt(FIRST + number, rule, tuple(answer.objects["trajectory"] for answer in sampled))
        run.state = tuple(
            ref for answer in learnt for kind, ref in answer.objects.items() if kind in ("policies", "learner")
        )
        sampled_reply, replies = done.reply.samples[number], [answer.reply for answer in sampled]
        assert sampled_reply.returns == sum((reply.returns for reply in replies), ())
        assert len(sampled_reply.returns) >= len(ROLLOUTS)
        assert sampled_reply.env_steps == sum(reply.env_steps for reply in replies) == len(ROLLOUTS) * NUM_ENVS * STEPS
        if per_invocation == len(ROLLOUTS):
            assert [sampled_reply] == replies
        metrics = functools.reduce(dict.__or__, (answer.reply.metrics for answer in learnt))
        tables = functools.reduce(dict.__or__, (answer.reply.tables for answer in learnt))
        assert (done.reply.learns[number].metrics, done.reply.learns[number].tables) == (metrics, tables)
        expected = {"density"} if scene == "numbers" else {"behaviour", "density"}
        assert {key.split("/")[0] for key in tables} == expected
    expected, found = run.tensors(run.state), together.tensors(done.objects.values())
    assert sorted(expected) == sorted(found)
    for key, array in expected.items():
        assert (found[key].dtype, found[key].shape) == (array.dtype, array.shape), key
        assert found[key].tobytes() == array.tobytes(), key


def test_function_outputs_policies_and_rest_as_two_objects():
    run, done = whole("mappo", "shared")
    policies, learner = (codec.decode(run.blobs[done.objects[kind].key], "") for kind in ("policies", "learner"))
    assert list(done.objects) == ["policies", "learner"]
    assert {key.split("/")[0] for key in policies} == {"policy"}
    assert {key.split("/")[0] for key in learner} == set(run.algorithm.parts) - {"policy"}
    for tensors in (policies, learner):
        assert {key.split("/")[1] for key in tensors} == {"g00", "g01"}
    usage, sizes = done.usage, [done.objects[kind].size for kind in ("policies", "learner")]
    assert (usage.puts, usage.bytes_written, usage.cold.gets) == (2, sum(sizes), len(run.state))
    assert not [key for key in run.blobs if "trajectory" in key]


def test_round_begins_at_end_of_previous():
    run, done = whole("ippo", "with identity")
    other = Run("ippo", "with identity")
    first = other.done(learn, other.whole(behaviours=(Behaviour(),)))
    other.state = tuple(first.objects.values())
    task = changed(other.whole(behaviours=(Behaviour(),) * (ROUNDS - 1)), round=FIRST + 1, id="run/rest", output="rest")
    rest = other.done(learn, task)
    assert first.reply.samples + rest.reply.samples == done.reply.samples
    assert first.reply.learns + rest.reply.learns == done.reply.learns
    for kind in ("policies", "learner"):
        one, two = (codec.decode(blobs[ref.key], "") for blobs, ref in (
            (run.blobs, done.objects[kind]), (other.blobs, rest.objects[kind]),
        ))  # fmt: skip
        assert codec.tensors_sha256(one) == codec.tensors_sha256(two)


def test_a_round_gets_arrays_as_stored(monkeypatch):
    run, seen = Run("ippo", "shared"), []

    def transposed(task, round_, share, trajectories, known, replay_buffer, progress):
        seen.append(known)
        outcome = update(task, round_, share, trajectories, known, replay_buffer, progress)
        return outcome._replace(tensors={name: np.asfortranarray(array) for name, array in outcome.tensors.items()})

    monkeypatch.setattr("marless.functions.learner.whole_rounds.update", transposed)
    run.done(learn, run.whole())
    wide = [array for known in seen for array in known.values() if min(array.shape) > 1]
    assert len(seen) == ROUNDS
    assert wide
    assert all(array.flags.c_contiguous for array in wide)


def test_a_repeated_attempt_answers_from_storage():
    run = Run("ippo", "shared")
    done = run.done(learn, run.whole())
    again = run.done(learn, msgspec.structs.replace(run.whole(), attempt=1))
    assert again == msgspec.structs.replace(done, attempt=1, usage=again.usage)
    assert (again.usage.gets, again.usage.puts) == (1, 0)


def test_rollouts_shorter_than_an_episode_are_refused():
    run = Run("ippo", "shared")
    failed = ask(learn, run.whole(rollout_length=2), run.blobs)
    assert (failed.kind, failed.message) == (
        "request", "actors.rollout_length is 2, shorter than an episode of toy/signal (3 steps)",
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_update_that_is_not_finite_stops_rounds():
    run = Run("ippo", "mpe")
    run.learning["hyperparameters"] = {**SETTINGS, "lr": 1e38}
    failed = ask(learn, run.whole(summaries=()), run.blobs)
    assert (failed.kind, failed.again) == ("not_finite", False)
    assert not [key for key in run.blobs if "whole" in key]
    sampled = run.sampled(FIRST, len(ROLLOUTS))
    with pytest.raises(AssertionError) as stopped:
        run.learnt(FIRST, "packed", (sampled[0].objects["trajectory"],))
    assert repr(failed.message) in str(stopped.value)
