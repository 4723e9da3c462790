"""The ways to train that are compared, and how long rollouts wait for a round to be as long as its learner."""

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.pipeline.launch import Settings, Way, trained

# Of the waiting task: rollouts of a round, rollouts of a micro-batch, and slots that sample.
ROLLOUTS, PART, SLOTS = 32, 2, 8
# The cores that waiting tasks keep busy, all together, next to learners: less than a second learner.
_SAMPLING_CORES = 0.5
# The first guess of a wait.
_GUESS_S = 0.2

FEW_EVALUATIONS = {"evaluation.every": 999_999, "evaluation.episodes": 2, "evaluation.final_episodes": 2}
ONE_STEP = {"algorithm.name": "ippo", "algorithm.epochs": 1, "algorithm.num_minibatches": 1}
_WAITING: Settings = {
    **FEW_EVALUATIONS,
    **ONE_STEP,
    "task.name": "waiting",
    "sharing.rule": "all",
    "actors.num_envs": 16,
    "algorithm.hidden": [256, 256],
    "actors.rollouts": ROLLOUTS,
}
# The default run, but for a learner of one step: rounds of 16 rollouts on two slots, which are two cores.
_COMPUTING: Settings = {**FEW_EVALUATIONS, **ONE_STEP, "sharing.rule": "all", "actors.rollouts": 16}


def waiting(learners: int, median_s: float, barrier: str = "", **pipeline: int) -> Way:
    """Rollouts that wait, on `SLOTS` slots, next to so many slots with cores that learn."""
    settings = {**_WAITING, "task.options.median_s": median_s, **_table(pipeline)}
    return Way(settings, SLOTS + learners, learners + _SAMPLING_CORES, barrier)


def computing(barrier: str = "", **pipeline: int) -> Way:
    """Rollouts that compute, on two slots for everything."""
    return Way({**_COMPUTING, **_table(pipeline)}, 2, 2.0, barrier)


def default(barrier: str = "", every: int = 0, **pipeline: int) -> Way:
    """The default run on two slots, with an evaluation in each round that `every` divides."""
    evaluated = {"evaluation.every": every, "evaluation.final_episodes": 2} if every else FEW_EVALUATIONS
    return Way({**evaluated, **_table(pipeline)}, 2, 2.0, barrier)


def calibrated_wait_s(whole: Way, ratio: float) -> float:
    """Return the median of a rollout's wait that makes learning take `ratio` times as long as sampling."""
    median_s = _GUESS_S
    for _ in range(2):  # other work takes its part of the slots, too
        measured = trained(replace(whole, settings={**whole.settings, "task.options.median_s": median_s}), 2)
        median_s *= measured.learning_s / ratio / measured.sampling_s
    return median_s


def _table(pipeline: Mapping[str, int]) -> dict[str, object]:
    return {f"pipeline.{key}": value for key, value in pipeline.items()}
