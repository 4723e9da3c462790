"""MARLess: multi-agent reinforcement learning on serverless functions.

Everything a notebook or a plug-in may import is here and in `marless.algorithms`, `marless.environments`,
`marless.rules`, `marless.loggers` and `marless.backends`; all other modules may change without notice.

Examples:
    >>> import marless
    >>> run = marless.train(seed=7, stop={"rounds": 50}, quiet=True)
    >>> run.summary.final_return.mean
    -58.9
    >>> actions = run.policy().act(observations)
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marless.run import Run, open_run

if TYPE_CHECKING:
    from pathlib import Path

    from marless.ablation.ablate import AblationResult
    from marless.comparison.compare_runs import RunComparison
    from marless.comparison.curve import Axis
    from marless.comparison.tournament import Tournament
    from marless.costs import CostEstimate
    from marless.estimation.simulation import Simulated
    from marless.exports.export import Exported
    from marless.reports.policy import TeamPolicy
    from marless.runs.evaluation import EvaluationResult
    from marless.studies.training import StudyResult

__all__ = [
    "ConfigError",
    "Run",
    "RunFailed",
    "UserError",
    "ablate",
    "compare",
    "crossplay",
    "estimate",
    "evaluate",
    "export",
    "load_policy",
    "open_run",
    "replay",
    "report",
    "resume",
    "simulate",
    "study",
    "train",
]

Config = str | os.PathLike[str] | Mapping[str, Any] | None


def train(
    config: Config = None,
    *,
    backend: str = "local",
    workers: int | None = None,
    run: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Trains a new run under ``runs/`` of the current folder and returns it when it has ended.

    Args:
        config: the path of a TOML file or a mapping of its tables; the defaults without one.
        backend: where functions run: ``local``, ``inline``, ``emulated``, ``aws``, or a plug-in's.
        workers: worker processes; one per core without it.
        run: the run's name; made of task, algorithm, seed and time without it.
        quiet: prints nothing.
        **settings: keys over those of `config`; tables as mappings.

    Raises:
        ConfigError: the configuration cannot be used; the message is one line.
        UserError: nothing could be trained; the message is one line that says what to do.
        RunFailed: the run began and failed; `resume` goes on where it stopped.

    A run that reached a cap, or that Ctrl-C stopped in order, is returned; see `Run.summary` for its status.

    Examples:
        >>> marless.train("my.toml", seed=7, stop={"rounds": 4})
        Run('runs/simple_spread-mappo-s7-20261123-101500')
    """
    from marless import driving

    return driving.train(config, settings, backend, workers, run, quiet)


def resume(
    run: "str | os.PathLike[str] | Run",
    *,
    workers: int | None = None,
    quiet: bool = False,
    trust: bool = False,
    **settings: Any,
) -> Run:
    """Goes on with a run that was stopped, was killed or failed, or that may train on under higher limits.

    `settings` may hold `stop` and the functions' ``timeout_s``. `trust` is as in `evaluate`. Raises as `train`.

    Examples:
        >>> marless.resume("runs/latest", stop={"rounds": 600})
        Run('runs/simple_spread-mappo-s1-20261123-101500')
    """
    from marless import driving

    return driving.resume(run, settings, workers, quiet, trust)


def evaluate(
    run: "str | os.PathLike[str] | Run",
    *,
    episodes: int | None = None,
    workers: int | None = None,
    trust: bool = False,
) -> "EvaluationResult":
    """Plays a run's newest policies greedily on fresh start states; returns are undiscounted.

    `trust`: a run that somebody else made may run the code that its configuration names; remembered. Raises `UserError`
    for a run without policies.

    Examples:
        >>> marless.evaluate("runs/latest", episodes=320).returns.mean
        -33.4
    """
    from marless import results

    return results.evaluate(run, episodes, workers, trust)


def replay(
    run: "str | os.PathLike[str] | Run",
    path: str | os.PathLike[str] | None = None,
    episodes: int = 3,
    *,
    beside: str | None = None,
    trust: bool = False,
) -> "Path":
    """Draws greedy episodes of a run's newest policies as an animation and returns its path.

    Args:
        run: the run, its name or its folder.
        path: a ``.gif``, or an ``.mp4`` by the program ffmpeg; the run's ``replay.gif`` without it.
        episodes: how many, from 1.
        beside: a second panel on the same start states: ``random``, ``scripted``, or a run or policy file of the task.
        trust: as in `evaluate`.

    Raises `UserError` for a run without policies, a task that cannot be drawn and a file that cannot be written.

    Examples:
        >>> marless.replay("runs/latest", "team.gif", beside="random")
        PosixPath('team.gif')
    """
    from marless import results

    return results.replay(run, path, episodes, beside, trust)


def export(
    run: "str | os.PathLike[str] | Run",
    to: str,
    path: str | os.PathLike[str] | None = None,
    *,
    best: bool = False,
    episodes: int | None = None,
    greedy: bool = False,
    rounds: tuple[int, int] | None = None,
    trust: bool = False,
) -> "Exported":
    """Writes a run's policies, or episodes, in a new folder for programs that do not know MARLess.

    Args:
        run: the run, its name or its folder.
        to: of policies ``onnx``, ``torch`` or ``safetensors``; of episodes ``npz`` or ``parquet``.
        path: the folder; ``exports/RUN-FORMAT`` without it.
        best: the policies of the best evaluation in place of the newest.
        episodes: how many to play.
        greedy: episodes of the most probable actions.
        rounds: the first and the last round whose stored rollouts are written, of runs with a replay buffer.
        trust: as in `evaluate`, where episodes are played.

    Raises `UserError` for what does not fit the format, for what the run does not have, and for a folder that is taken.

    Examples:
        >>> marless.export("runs/latest", "npz", "data", episodes=1000).line
        '1,000 episodes, 25,000 steps, sampled'
    """
    from marless import results

    return results.export(run, to, path, best, episodes, greedy, rounds, trust)


def report(
    runs: "str | os.PathLike[str] | Run | Sequence[str | os.PathLike[str] | Run]" = "latest",
    path: str | os.PathLike[str] = "report.html",
    *,
    by: Sequence[str] = (),
    at: "Axis" = "steps",
    metric: str = "return",
) -> "Path":
    """Writes one page in HTML about a run, or about several that are compared, and returns its path.

    Args:
        runs: a run, or several; a folder that holds runs, as a study's, stands for all of them.
        path: the page.
        by: keys of the configuration that tell arms apart, such as ``algorithm.name``.
        at: what is equal where runs are compared: ``steps``, ``seconds`` or ``dollars``.
        metric: a metric of the environment to compare in place of the return.

    Raises `UserError` for runs that cannot be compared, and for a page that cannot be written.

    Examples:
        >>> marless.report("studies/rates", "rates.html", by=["algorithm.lr"])
        PosixPath('rates.html')
    """
    from marless import results

    return results.report(runs, path, by, at, metric)


def crossplay(
    *runs: "str | os.PathLike[str] | Run",
    episodes: int = 320,
    sampled: bool = False,
    path: str | os.PathLike[str] | None = None,
    trust: bool = False,
) -> "Tournament":
    """Plays every team against every other with either side of the task; says who wins how much, and rates them.

    Args:
        runs: the first is a run; the others are runs, policy files, ``random`` or ``scripted``. A run alone is played
            by the checkpoints of its league and its newest policies.
        episodes: of each pair and side, 2 at least.
        sampled: policies draw their actions; greedy games without chance are all alike.
        path: the folder for crossplay.json and crossplay.png; nothing is written without it.
        trust: as in `evaluate`.

    Raises `UserError` for teams that cannot play each other.

    Examples:
        >>> marless.crossplay("chase", "scripted", "random").ratings
        (1200.0, 1134.2, 871.5)
    """
    from marless import results

    return results.crossplay(runs, episodes, sampled, path, trust)


def study(
    file: str | os.PathLike[str] | Mapping[str, Any],
    *,
    out: str | os.PathLike[str] | None = None,
    slots: int | None = None,
    quiet: bool = False,
) -> "StudyResult":
    """Trains many runs over settings and seeds at once on one pool of workers of this machine.

    Args:
        file: the path of a study's TOML file, a mapping of its tables, or the name of a study that was begun.
        out: the study's folder; ``studies/NAME`` after the file without it. A mapping needs one.
        slots: worker processes; those of the file's pool without it.
        quiet: prints nothing.

    The same call goes on with a study that was stopped. Raises `ConfigError` for settings that no run can have, and
    `UserError` for a folder that holds another study.

    Examples:
        >>> rates = marless.study({"seeds": "1-5", "vary": {"algorithm": {"lr": [3e-4, 1e-3]}}}, out="studies/rates")
        >>> [(run.setting, run.seed, run.score) for run in rates.runs][0]
        ('lr-0.0003', 1, -51.2)
    """
    from marless import experiments

    return experiments.study(file, out, slots, quiet)


def ablate(
    config: Config = None,
    *,
    arms: Sequence[str] = (),
    seeds: str | Sequence[int] = "1-10",
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    random: float | None = None,
    headlines: Sequence[str] = (),
    reference: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    **settings: Any,
) -> "AblationResult":
    """Compares sharing, scaling and placement rules over seeds: return, dollars and time against the first arm.

    Args:
        config: what all runs have in common, as in `train`.
        arms: names such as ``ours`` or ``none+gns@split``, the baseline first; all without it.
        seeds: of every arm, as a list or as ``1-10``.
        jobs: parallel runs; one per core without it.
        out: the ablation's folder; ``ablations/TASK-ALGORITHM`` without it.
        random: the return of random play, to report differences in per cent of the gain.
        headlines: contrasts declared before the runs, such as ``ours/packed:dollars``.
        reference: a run or policy file whose policies are the opponents of each side of competing agents.
        quiet: prints nothing.
        **settings: keys over those of `config`; tables as mappings.

    The same call goes on with an ablation that was stopped. Raises `ConfigError` and `UserError`.

    Examples:
        >>> result = marless.ablate("my.toml", arms=["marless-minus", "ours"], seeds="1-3")
        >>> result.comparison.comparisons[1].ratios["dollars"].value
        0.62
    """
    from marless import experiments

    return experiments.ablate(config, settings, arms, seeds, jobs, out, random, headlines, reference, quiet)


def compare(
    *runs: "str | os.PathLike[str] | Run",
    by: Sequence[str] = (),
    at: "Axis" = "steps",
    metric: str = "return",
    path: str | os.PathLike[str] | None = None,
) -> "RunComparison":
    """Compares trained runs over seeds, with intervals, and says where they cannot be told apart.

    Args:
        runs: runs, or folders that hold runs, as a study's; the arm of the first one is what others are compared with.
        by: keys of the configuration that tell arms apart, such as ``algorithm.name``.
        at: what is equal where runs are compared: ``steps``, ``seconds`` or ``dollars``.
        metric: a metric of the environment to compare in place of the return.
        path: the folder for the tables and pictures; nothing is written without it.

    Raises `UserError` for runs that cannot be compared.

    Examples:
        >>> comparison = marless.compare("studies/rates").comparison
        >>> [(row.arm, row.against.verdict) for row in comparison.equal[1:]]
        [('lr=0.001', 'higher')]
    """
    from marless import experiments

    return experiments.compare(runs, by, at, metric, path)


def estimate(
    config: Config = None,
    *,
    backend: str = "local",
    workers: int | None = None,
    detach: bool = False,
    concurrency: int = 1000,
    **settings: Any,
) -> "CostEstimate":
    """What a run would cost on AWS Lambda and how long it would take, after playing a few of its rounds here.

    Raises `ConfigError` and `UserError`.

    Examples:
        >>> marless.estimate("my.toml", backend="aws", detach=True).dollars
        0.021
    """
    from marless.costs import estimate as worked_out

    return worked_out(config, settings, backend, workers, detach, concurrency)


def simulate(
    run: "str | os.PathLike[str] | Run",
    rollouts: Sequence[int] = (),
    *,
    slots: int | None = None,
    rounds: int = 20,
    deployed: bool = False,
    faults: Mapping[str, float] | None = None,
    seed: int = 0,
    workers: int | None = None,
    **settings: Any,
) -> "list[Simulated]":
    """How long rounds of a recorded run would take, and what they would cost, for each number of `rollouts` in a round.

    Args:
        run: a run, or the path of a TOML file, of which a few rounds are played here first.
        rollouts: as recorded without it.
        slots: functions that run at once; as recorded without it.
        rounds: how many to simulate, 3 at least.
        deployed: requests and storage take as long as on AWS.
        faults: shares of attempts that are ``slow``, ``cold``, ``throttled`` or ``lost``.
        seed: of the drawn durations.
        workers: worker processes for a file's rounds; one per core without it.
        **settings: keys over those of the run or the file; tables as mappings.

    Raises `ConfigError`, and `UserError` for a run that has no record.

    Examples:
        >>> [run.dollars for run in marless.simulate("latest", [50, 500], slots=100)]
        [0.0011, 0.0104]
    """
    from marless import costs

    return costs.simulate(run, rollouts, slots, rounds, deployed, faults or {}, seed, workers, settings)


def load_policy(path: str | os.PathLike[str]) -> "TeamPolicy":
    """The policies of a run's folder or of a policy file, ready to act.

    Raises `FileNotFoundError` where there is no such file.

    Examples:
        >>> policy = marless.load_policy("runs/latest")
        >>> policy.act(observations)
        {'agent_0': 3, 'agent_1': 0, 'agent_2': 1}
    """
    from marless.reports.policy import load_policy as load

    return load(path)


def __getattr__(name: str) -> Any:
    """The errors, which are defined where they are raised."""
    if name == "ConfigError":
        from coordinator.config.schema import ConfigError

        return ConfigError
    if name == "UserError":
        from coordinator.errors import UserError

        return UserError
    if name == "RunFailed":
        from marless.driving import RunFailed

        return RunFailed
    raise AttributeError(f"module 'marless' has no attribute {name!r}")
