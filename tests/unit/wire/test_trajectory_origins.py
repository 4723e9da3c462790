"""The header of an object with trajectories tells their age, and tasks refuse wrong ages."""

import msgspec
import numpy as np
import pytest
from simulated import MemoryStorage
from task_fields import make_task

from marless.functions import codec, keys
from marless.functions.actor.handler import handle as act
from marless.functions.data.origins import policies_sha256
from marless.functions.data.trajectory import tensors_below
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.learner.handler import handle as learn
from marless.functions.messages.actor import Behaviour, Match, Recorded, SampleTask
from marless.functions.messages.exchange import Answer, Done, Failed, Origin, TaskHeader
from marless.functions.messages.learner import InitialiseTask, LearnTask, Past, WholeTask
from marless.functions.messages.team import Opponents, Team

TOY = EnvTask(name="toy/signal", agents=3, options={"horizon": 3})
TEAM = Team(groups=(0, 1, 0), identity=True)
SETTINGS = {"hidden": [4], "updates_per_round": 2, "batch_size": 8, "buffer_size": 1000}
LEARNING = {"algorithm": "iql", "hyperparameters": SETTINGS, "spec": registry.spec(TOY)}
SAMPLING = {"environment": TOY, "num_envs": 2, "rollout_length": 5}


class Store(MemoryStorage):
    def ask(self, handler, kind, round_, work, **fields):
        task = make_task(
            kind, id=keys.task_id("r", round_, work), run="r", round=round_, output=keys.output_prefix(round_, work),
            timeout_s=9.0, seed=3, team=TEAM, **fields,
        )  # fmt: skip
        return msgspec.json.decode(handler(msgspec.json.encode(task), self), type=Answer)

    def done(self, *args, **fields):
        answer = self.ask(*args, **fields)
        assert isinstance(answer, Done), answer
        return answer.objects

    def started(self):
        return self.done(learn, InitialiseTask, 0, "initialise", **LEARNING)

    def sampled(self, policies, round_=4, rollouts=(0, 1), **fields):
        work = f"sample/{keys.rollouts_name(rollouts)}"
        made = {"policies": policies, "rollouts": rollouts, **SAMPLING, **fields}
        return self.done(act, SampleTask, round_, work, **made)["trajectory"]

    def origins(self, ref):
        return codec.header(self[ref.key], ref.key).origins

    def tensors(self, *refs):
        return {name: array for ref in refs for name, array in codec.decode(self[ref.key], ref.key).items()}


def learner(store, state, trajectories, round_=4, **fields):
    """The answer to a task that learns round `round_` from these objects."""
    return store.ask(
        learn, LearnTask, round_, "learn", stages=("utility",), groups=(0, 1), rollouts=(0, 1), state=state,
        trajectories=trajectories, updates=2, **LEARNING, **fields,
    )  # fmt: skip


def test_trajectory_names_round_and_hash_of_policies():
    store = Store()
    first = store.started()
    tensors = store.tensors(first["policies"])
    halves = []
    for group in ("g00", "g01"):
        half = {name: array for name, array in tensors.items() if name.split("/")[1] == group}
        store.put(group, codec.encode({**half, f"critic/{group}": np.ones(1)}, TaskHeader(task=group)))
        halves.append(codec.reference(group, store[group]))
    together, apart = store.sampled((first["policies"],)), store.sampled(tuple(halves), rollouts=(2,))
    assert store.origins(together) == store.origins(apart)
    assert store.origins(together) == (Origin(round=4, policies=codec.tensors_sha256(tensors)),)
    assert store.origins(first["policies"]) == store.origins(first["learner"]) == ()
    changed_tensors = {**tensors, "policy/g01/b0": tensors["policy/g01/b0"] + 1}
    assert policies_sha256(changed_tensors, TEAM) != policies_sha256(tensors, TEAM)
    # Networks of former groups do not play.
    assert policies_sha256({**tensors, "policy/g02/b0": np.ones(3)}, TEAM) == policies_sha256(tensors, TEAM)


def test_chained_task_names_policies_like_separate_tasks():
    store = Store()
    first = store.started()
    whole = store.done(
        learn, WholeTask, 0, "whole", rollouts=(0, 1), behaviours=(Behaviour(kind="epsilon", amount=1.0),) * 2,
        state=tuple(first.values()), updates=2, replayed_steps=1000, **SAMPLING, **LEARNING,
    )  # fmt: skip
    one, two = store.origins(whole["played"])
    assert (one.round, two.round) == (0, 1)
    assert one == Origin(round=0, policies=policies_sha256(store.tensors(first["policies"]), TEAM))
    alone = store.done(
        learn, WholeTask, 0, "one", rollouts=(0, 1), behaviours=(Behaviour(kind="epsilon", amount=1.0),),
        state=tuple(first.values()), updates=2, replayed_steps=1000, **SAMPLING, **LEARNING,
    )  # fmt: skip
    assert two == Origin(round=1, policies=policies_sha256(store.tensors(alone["policies"]), TEAM))


def test_in_a_match_both_sides_are_named():
    store = Store()
    first = store.started()
    tensors = {name: array + 1 for name, array in store.tensors(first["policies"]).items()}
    store.put("earlier", codec.encode(tensors, TaskHeader(task="earlier")))
    match = Match(agents=(0,), team=TEAM, policies=(codec.reference("earlier", store["earlier"]),))
    own = policies_sha256(store.tensors(first["policies"]), TEAM)
    expected = Origin(round=4, policies=own, opponents=policies_sha256(tensors, TEAM))
    assert store.origins(store.sampled((first["policies"],), match=match)) == (expected,)
    script = Team(groups=TEAM.groups, opponents=Opponents(agents=(1, 2), acting="random"))
    ref = store.sampled((first["policies"],), rollouts=(2,), match=Match(agents=(0,), team=script))
    assert store.origins(ref) == (Origin(round=4, policies=own),)


def test_dataset_rollouts_name_hash_and_no_policies():
    store = Store()
    first = store.started()
    columns = tensors_below(store.tensors(store.sampled((first["policies"],), round_=0)), "u00000/")
    columns["return"] = np.zeros_like(columns["reward"], np.float64)
    store.put("dataset", codec.encode(columns, TaskHeader(task="dataset")))
    dataset = codec.reference("dataset", store["dataset"])
    ref = store.sampled((), recorded=Recorded(dataset=dataset, first=0))
    assert store.origins(ref) == (Origin(round=4, dataset=dataset.sha256),)


@pytest.mark.parametrize("place", ["round", "past"])
def test_data_of_unpromised_round_is_refused(place):
    store = Store()
    first = store.started()
    state, three, four = tuple(first.values()), *(store.sampled((first["policies"],), round_) for round_ in (3, 4))
    assert isinstance(learner(store, state, (four,), past=(Past(round=3, rollouts=2, trajectories=(three,)),)), Done)
    if place == "round":
        answer, wrong, promised = learner(store, state, (three,)), three, 4
    else:
        past = (Past(round=2, rollouts=2, trajectories=(three,)),)
        answer, wrong, promised = learner(store, state, (four,), past=past), three, 2
    assert isinstance(answer, Failed) and answer.kind == "foreign_object" and not answer.again
    assert answer.message == f"{wrong.key} was sampled in round 3; round {promised} was to be read"


def test_lagged_task_refuses_its_own_round():
    store = Store()
    first = store.started()
    state = tuple(first.values())
    sampled = {round_: store.sampled((first["policies"],), round_) for round_ in (1, 2, 3, 4)}
    past = (Past(round=1, rollouts=2, trajectories=(sampled[1],)),)
    assert isinstance(learner(store, state, (sampled[2],), age=2, past=past), Done)
    for round_ in (1, 3, 4):
        answer = learner(store, state, (sampled[round_],), age=2)
        assert isinstance(answer, Failed) and answer.kind == "foreign_object"
        assert answer.message == (f"{sampled[round_].key} was sampled in round {round_}; round 2 was to be read")


def test_data_of_two_policy_versions_is_refused():
    store = Store()
    first = store.started()
    tensors = {name: array + 1 for name, array in store.tensors(first["policies"]).items()}
    store.put("other", codec.encode(tensors, TaskHeader(task="other")))
    one = store.sampled((first["policies"],), rollouts=(0,))
    other = store.sampled((codec.reference("other", store["other"]),), rollouts=(1,))
    answer = learner(store, tuple(first.values()), (one, other))
    assert isinstance(answer, Failed)
    assert answer.message == f"{one.key} and {other.key} are of round 4, but were sampled with different policies"


def test_an_object_that_names_no_round_is_refused():
    store = Store()
    first = store.started()
    ref = store.sampled((first["policies"],))
    store["old"] = codec.encode(store.tensors(ref), TaskHeader(task="old"))
    answer = learner(store, tuple(first.values()), (codec.reference("old", store["old"]),))
    assert isinstance(answer, Failed)
    assert answer.message == "old was sampled in a round that its header does not name; round 4 was to be read"
