"""The age of a round's data, counted row by row from the headers of the objects that learners read."""

from collections import Counter, defaultdict
from itertools import product

import msgspec
import pytest
from detached_runs import SMALL, World

from marless.functions import codec
from marless.functions.data.origins import policies_sha256
from marless.functions.data.trajectory import rollout_prefix
from marless.functions.messages.actor import SampleTask
from marless.functions.messages.exchange import Request
from marless.functions.messages.learner import LearnTask

REPLAY = ("algorithm.name=iql", "algorithm.updates_per_round=2", "algorithm.batch_size=16")
ROUNDS = ("stop.rounds=5", "evaluation.every=5")
# Rows of a round: environments, steps, rollouts. The buffer holds two rounds.
BUFFER = "algorithm.buffer_size=120"


class Read(World):
    """A run with real functions in memory that notes the reads of its learners and actors."""

    def __init__(self, *settings):
        super().__init__(*SMALL, *ROUNDS, *settings)
        self.learned = []
        self.acted_by = defaultdict(set)
        self.played_by = defaultdict(set)

    def work(self, function, body):
        request = msgspec.json.decode(body, type=Request)
        if isinstance(request, SampleTask):
            tensors = codec.fetch_tensors(self.storage, request.policies)
            self.acted_by[request.address.round].add(policies_sha256(tensors, request.team))
        if isinstance(request, LearnTask):
            replayed = sum((self.rows(past.trajectories) for past in request.learning.past), Counter())
            self.learned.append((request, self.rows(request.trajectories), replayed))
        super().work(function, body)

    def rows(self, refs):
        """The rows of some objects by round and rollout: steps of all environments."""
        counts = Counter()
        for ref in refs:
            body = codec.fetch(self.storage, ref)
            (origin,) = codec.header(body, ref.key).origins
            self.played_by[origin.round].add(origin.policies)
            for name, array in codec.decode(body, ref.key).items():
                if name.endswith("/ended"):
                    counts[origin.round, name.split("/")[0]] += array.size
        return counts


def rows_of_round(run, round_):
    line = run.journal[round_]
    before = run.journal[round_ - 1].env_steps if round_ else 0
    each = (line.env_steps - before) // line.rollouts
    return Counter({(round_, rollout_prefix(number)): each for number in range(line.rollouts)})


@pytest.mark.parametrize(
    ("lag", "rule"), [(0, "placement.rule=split"), (0, "placement.rule=packed"), (2, "placement.rule=split")]
)
def test_every_row_is_learned_once_at_its_lag(lag, rule):
    run = Read("algorithm.name=ippo", f"pipeline.lag={lag}", rule).run()
    times = Counter()
    for request, rows, _ in run.learned:
        assert rows == rows_of_round(run, request.address.round - lag)
        times.update((request.address.round, stage, group) for stage in request.stages for group in request.groups)
    stages = {stage for _, stage, _ in times}
    assert times == dict.fromkeys(product(range(lag, 5), stages, (0, 1)), 1)
    assert [line.staleness for line in run.journal] == [None] * lag + [lag] * (5 - lag)
    assert run.played_by == {round_: run.acted_by[round_] for round_ in range(5 - lag)}
    assert len(set.union(*run.acted_by.values())) == 5 - lag


@pytest.mark.parametrize("lag", [0, 2])
def test_replay_buffer_ends_with_rows_of_lag(lag):
    run = Read(*REPLAY, BUFFER, f"pipeline.lag={lag}").run()
    assert {request.address.round for request, _, _ in run.learned} == set(range(lag, 5))
    for request, rows, replayed in run.learned:
        newest = request.address.round - lag
        assert rows == rows_of_round(run, newest)
        assert replayed == (rows_of_round(run, newest - 1) if newest else Counter())
    assert run.played_by == {round_: run.acted_by[round_] for round_ in range(5 - lag)}


def test_partial_gradients_read_every_row_once():
    run = Read(
        "algorithm.name=ippo", "algorithm.epochs=1", "algorithm.num_minibatches=1", "pipeline.micro_batch=2"
    ).run()
    partials = [(request, rows) for request, rows, _ in run.learned if request.partial is not None]
    for round_ in range(5):
        read = Counter()
        for request, rows in partials:
            if request.address.round == round_ and 0 in request.groups:
                read += rows
        assert read == rows_of_round(run, round_)
