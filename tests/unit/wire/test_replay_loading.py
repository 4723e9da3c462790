"""The rollouts that a function caches or reads for its replay buffer: the learned weights are equal either way."""

import marked_rollouts
import msgspec
import numpy as np
import pytest
from detached_runs import World
from simulated import MemoryStorage, ReadStorage
from task_fields import changed, make_task

from marless.functions import codec, keys
from marless.functions.data.replay_buffer import ReplayBuffer
from marless.functions.data.replay_loading import keep, load_rounds, named_by_round, replay_buffer_of
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.errors import NoSuchObject
from marless.functions.learner.handler import handle as learn
from marless.functions.messages.actor import Behaviour
from marless.functions.messages.exchange import Answer, Done, Origin, TaskHeader
from marless.functions.messages.learner import InitialiseTask, Past, WholeTask
from marless.functions.messages.team import Team
from marless.functions.warm_cache import WARM

SPEC = marked_rollouts.spec(masked=True)


def played(*numbers, rollouts=(0, 1)):
    """Rounds with actors' names: rollout u of round n is number 10 n + u."""
    named = {}
    for number in numbers:
        tensors = {
            f"u{u:05d}/{name}": array
            for u in rollouts
            for name, array in marked_rollouts.rollout(10 * number + u, SPEC).items()
        }
        named |= tensors if len(numbers) == 1 else named_by_round(tensors, number)
    return named


def store(storage, key, *numbers, rollouts=(0, 1), rounds=()):
    """An object with some rounds, by default the rounds of the rollouts' numbers, and its reference."""
    origins = tuple(Origin(round=round_, policies="") for round_ in rounds or numbers)
    storage.put(key, codec.encode(played(*numbers, rollouts=rollouts), TaskHeader(task=key, origins=origins)))
    return codec.reference(key, storage[key])


def firsts(kept):
    rows = marked_rollouts.STEPS * marked_rollouts.NUM_ENVS
    return [int(found) for found in kept.segments_from(np.arange(0, kept.size, rows)).observations[0][0, 0, :, 0]]


def test_rounds_are_found_in_joined_and_split_objects():
    storage, kept = ReadStorage(), ReplayBuffer(SPEC)
    together = store(storage, "whole", 1, 2)
    halves = (store(storage, "one", 3, rollouts=(0,)), store(storage, "two", 3, rollouts=(1,)))
    past = [Past(round=n, rollouts=2, trajectories=(together,)) for n in (1, 2)]
    past.append(Past(round=3, rollouts=2, trajectories=halves))
    load_rounds(kept, past, {}, storage)
    assert firsts(kept) == [10_000, 11_000, 20_000, 21_000, 30_000, 31_000]
    assert storage.asked == ["whole", "one", "two"]


def test_available_rounds_are_not_read_again():
    storage, kept = ReadStorage(), ReplayBuffer(SPEC)
    past = [Past(round=n, rollouts=2, trajectories=(store(storage, f"round {n}", n),)) for n in (1, 2, 3)]
    load_rounds(kept, past[:2], {2: played(2)}, storage)
    assert storage.asked == ["round 1"]
    load_rounds(kept, past[1:], {3: played(3)}, storage)
    assert storage.asked == ["round 1"]
    assert firsts(kept) == [20_000, 21_000, 30_000, 31_000]


def window(storage, name, *rounds):
    objects = {n: store(storage, f"{name} {n}", 10 * len(name) + n, rounds=(n,)) for n in rounds}
    return [Past(round=n, rollouts=2, trajectories=(ref,)) for n, ref in objects.items()]


def filled(rounds, storage, spec=SPEC):
    """The buffer of a task that learns from `rounds`, kept."""
    replay_buffer = replay_buffer_of(spec, rounds)
    load_rounds(replay_buffer, rounds, {}, storage)
    keep(replay_buffer, rounds)
    return replay_buffer


def test_buffers_of_several_runs_read_only_new_rounds():
    storage = ReadStorage()
    runs = [window(storage, name, 1, 2, 3) for name in ("a", "bb", "ccc")]
    first = [filled(rounds[:2], storage) for rounds in runs]
    storage.asked.clear()
    assert [filled(rounds[1:], storage) for rounds in runs] == first
    assert storage.asked == ["a 3", "bb 3", "ccc 3"]
    assert [firsts(buffer)[0] for buffer in first] == [120_000, 220_000, 320_000]


def test_process_that_missed_rounds_finds_buffer_again():
    storage = ReadStorage()
    rounds = window(storage, "a", 1, 2, 3, 4)
    first = filled(rounds[:2], storage)
    assert filled(rounds, storage) is first
    assert storage.asked == ["a 1", "a 2", "a 3", "a 4"]


def test_latest_buffer_stays_and_oldest_are_dropped_first():
    storage = ReadStorage()
    runs = [window(storage, name, 1) for name in ("a", "bb", "ccc")]
    first = [filled(rounds, storage) for rounds in runs]
    WARM.bound = first[1].nbytes + len(storage["ccc 1"])
    assert filled(runs[2], storage) is first[2]
    assert filled(runs[1], storage) is first[1]
    assert filled(runs[0], storage) is not first[0]
    WARM.bound = 0
    last = filled(runs[2], storage)
    assert replay_buffer_of(SPEC, runs[1]) not in first
    assert replay_buffer_of(SPEC, runs[2]) is last


def test_same_named_rounds_in_two_folders_are_separate():
    """The keys and the numbers of the rounds are equal, only the bytes are not."""
    here, there = ReadStorage(), ReadStorage()
    past = [
        [Past(round=1, rollouts=2, trajectories=(store(where, "key", n, rounds=(1,)),))]
        for where, n in ((here, 1), (there, 7))
    ]
    for _ in range(2):
        assert firsts(filled(past[0], here)) == [10_000, 11_000]
        assert firsts(filled(past[1], there)) == [70_000, 71_000]
    assert here.asked == there.asked == ["key"]


def test_a_buffer_of_another_task_is_not_used():
    storage = ReadStorage()
    rounds = window(storage, "a", 1)
    first = filled(rounds, storage)
    assert replay_buffer_of(marked_rollouts.spec(), rounds) is not first


def test_task_that_fails_while_filling_leaves_no_buffer():
    storage = ReadStorage()
    rounds = window(storage, "a", 1, 2)
    first = filled(rounds[:1], storage)
    WARM.bound = 0
    storage.pop("a 2")
    with pytest.raises(NoSuchObject):
        filled(rounds, storage)
    assert replay_buffer_of(SPEC, rounds) is not first


def test_missing_object_leaves_buffer_whole():
    storage, kept = ReadStorage(), ReplayBuffer(SPEC)
    past = [Past(round=n, rollouts=2, trajectories=(store(storage, f"round {n}", n),)) for n in (1, 2)]
    load_rounds(kept, past[:1], {}, storage)
    body = storage.pop("round 2")
    with pytest.raises(NoSuchObject):
        load_rounds(kept, past, {}, storage)
    storage["round 2"] = body
    load_rounds(kept, past, {}, storage)
    assert firsts(kept) == [10_000, 11_000, 20_000, 21_000]


OFF_POLICY = (
    "algorithm.buffer_size=35", "algorithm.updates_per_round=2", "algorithm.batch_size=6", "algorithm.epsilon_steps=30",
    "actors.rollouts=2", "actors.num_envs=2", "stop.rounds=4", "sharing.rule=none",
)  # fmt: skip  # Rounds of 2 * 2 * 5 steps: the buffer is one round.
LONGER = ("algorithm.buffer_size=45",)  # Two rounds.


class NewProcesses(World):
    """Every function is a new process. `gets` sums over all learners."""

    forgets, gets = True, 0

    def work(self, function, body):
        if self.forgets:
            WARM.clear()
        super().work(function, body)


class OneProcess(NewProcesses):
    forgets = False


# A task of several rounds caches only stored rounds, so a difference takes more rounds to show.
PLACEMENTS = {
    "split": LONGER,
    "packed": LONGER,
    "whole": ("placement.chain=2", "algorithm.buffer_size=85", "stop.rounds=6"),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rule", PLACEMENTS)
@pytest.mark.parametrize("name", ["iql", "vdn", "qmix"])
def test_process_with_kept_buffer_learns_the_same(name, rule):
    settings = (*OFF_POLICY, *PLACEMENTS[rule], f"algorithm.name={name}", f"placement.rule={rule}")
    cold, warm = NewProcesses(*settings).run(), OneProcess(*settings).run()
    assert cold.state.status == warm.state.status == "finished"
    assert cold.weights == warm.weights
    assert [line.metrics for line in cold.journal] == [line.metrics for line in warm.journal]
    # The bill does not depend on the caches of a local process.
    assert cold.state.meter.gets == warm.state.meter.gets


def test_a_larger_buffer_is_learned_from():
    worlds = [OneProcess(*OFF_POLICY, *more, "algorithm.name=iql").run() for more in ((), LONGER)]
    assert worlds[0].weights != worlds[1].weights


def test_too_small_buffer_learns_from_last_round():
    tiny, one = (
        OneProcess(*OFF_POLICY, f"algorithm.buffer_size={steps}", "algorithm.name=iql").run() for steps in (1, 20)
    )
    assert tiny.weights == one.weights
    assert [past.round for past in tiny.state.past] == [3]


def whole_task(**changes):
    environment = EnvTask(name="toy/signal")
    fields = {
        "id": "r/0/w", "run": "r", "round": 0, "output": "w", "timeout_s": 9.0, "seed": 3, "algorithm": "iql",
        "hyperparameters": {"hidden": [4], "updates_per_round": 2, "batch_size": 8, "buffer_size": 1000}, "environment":
        environment, "spec": registry.spec(environment), "team": Team(groups=(0, 1)), "rollouts": (0, 1), "num_envs": 2,
        "rollout_length": 5, "behaviours": (Behaviour(kind="epsilon", amount=1.0),) * 2, "state": (), "updates": 2,
        "replayed_steps": 1000,
    }  # fmt: skip
    return make_task(WholeTask, **{**fields, **changes})


def started(storage):
    task = whole_task()
    made = make_task(InitialiseTask,
        id="r/0/i", run="r", round=0, output="i", timeout_s=9.0, seed=3, algorithm=task.learning.algorithm,
        hyperparameters=task.learning.hyperparameters, spec=task.learning.spec, team=task.team,
    )  # fmt: skip
    return tuple(done(learn(msgspec.json.encode(made), storage)).objects.values())


def done(body):
    answer = msgspec.json.decode(body, type=Answer)
    assert isinstance(answer, Done), answer
    return answer


def test_unstored_rounds_are_not_those_of_other_attempt():
    """Two attempts of a task may play different episodes: only the stored one counts."""
    storage = MemoryStorage()
    state = started(storage)
    first = done(learn(msgspec.json.encode(whole_task(state=state)), storage))
    played_once = storage.copy()
    again = whole_task(state=state, output="again", behaviours=(Behaviour(kind="epsilon", amount=0.0),) * 2)
    learned = done(learn(msgspec.json.encode(again), storage))
    WARM.clear()
    fresh = done(learn(msgspec.json.encode(changed(again, output="fresh")), storage))
    assert learned.objects["policies"].sha256 == fresh.objects["policies"].sha256
    assert learned.objects["policies"].sha256 != first.objects["policies"].sha256
    assert all(storage[key] == body for key, body in played_once.items())


def test_task_of_several_rounds_stores_each_once():
    storage = MemoryStorage()
    answer = done(learn(msgspec.json.encode(whole_task(state=started(storage))), storage))
    assert list(answer.objects) == ["played", "policies", "learner"]
    tensors = codec.decode(storage[answer.objects["played"].key], "")
    assert {tuple(name.split("/")[:2]) for name in tensors} == {
        (keys.round_name(round_), f"u{rollout:05d}") for round_ in (0, 1) for rollout in (0, 1)
    }
