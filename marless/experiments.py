"""Studies, ablations and comparisons from Python, like `marless study` and `marless compare`."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from marless.ablation.ablate import AblationResult, AblationView, plan
from marless.ablation.ablate import ablate as run_ablation
from marless.ablation.arms import ARMS, arms_by_name
from marless.backends import registry
from marless.comparison.compare_runs import RunComparison, compare_runs
from marless.coordinator.config.loading import overrides, spelled_out
from marless.coordinator.config.nested_tables import merge
from marless.coordinator.errors import UserError
from marless.functions.encoding import to_json
from marless.functions.environments.registry import spec
from marless.infra.local.available_cores import cores
from marless.reports.user_code.named_objects import require_importable, with_names
from marless.runs.run_policies import with_absolute_policies
from marless.signals import Signals
from marless.studies import cloud_study
from marless.studies.campaign import CampaignView
from marless.studies.seeds import seeds_of
from marless.studies.study_file import parse
from marless.studies.train_study import StudyResult, named_study, train_study, with_pool
from marless.training import ConfigLike, TrainingInterrupted, configuration, ends_at_once
from marless.user_errors import path_of, require_list, short_errors

if TYPE_CHECKING:
    from marless.comparison.run_evaluations import Axis
    from marless.settings import RunKeys

R = TypeVar("R", StudyResult, AblationResult)

_AGAIN = "the same call goes on with it"


@short_errors(TrainingInterrupted, slots="workers")
def study(
    file: str | os.PathLike[str] | Mapping[str, Any],
    *,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    backend: str | None = None,
    address: str | None = None,
    quiet: bool = False,
) -> StudyResult:
    """Train many runs over settings and seeds at once, on one pool of workers of this machine or of a cluster.

    Args:
        file: the path of a study's TOML file, a mapping of its tables, or the name of a study that began.
        out: the study's folder. By default it is ``studies/NAME``, after the file. A mapping needs it.
        workers: worker processes. The default is in the file's pool.
        backend: ``ray``, or ``local`` for processes of this machine. The default is in the file's pool.
        address: the address of the cluster. By default, Ray finds it.
        quiet: print no progress.

    The same call continues a study that was stopped. Ctrl-C raises `TrainingInterrupted`.
    Raises `ConfigError` for settings that no run can have, and `UserError` for a folder that holds another study.
    """
    if isinstance(file, Mapping):
        if out is None:
            raise UserError("a study that is no file needs its folder, such as out='studies/rates'")
        folder, settings = Path(out), parse(with_names(file), "the study", Path())
    else:
        folder, settings = named_study(os.fspath(file), None if out is None else Path(out))
    settings = with_pool(folder, settings, workers, backend)
    if cloud_study.place_of(folder):
        raise UserError(f"{folder} holds a study in the cloud, which the command marless study goes on with")
    from marless.views.study_views import choose_study_view

    view = CampaignView() if quiet else choose_study_view(json=False)
    with ends_at_once(lambda: _AGAIN), Signals() as signals:
        listen = partial(registry.listening, settings.pool.backend, address)
        result = train_study(folder, settings, signals, view, listen)
    return _unless_stopped(result, signals)


@short_errors(TrainingInterrupted, slots="workers")
def benchmark(
    tasks: Sequence[Any],
    algorithms: Sequence[Any],
    *,
    seeds: int | str | Sequence[int] = 5,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    quiet: bool = False,
    **settings: Unpack["RunKeys"],
) -> RunComparison:
    """Train each algorithm on each task with each seed, as one study, and compare the algorithms.

    Args:
        tasks: names, classes, or functions that make environments.
        algorithms: names, settings such as ``marless.MAPPO(lr=3e-4)``, or your algorithms.
        seeds: how many, or which ones.
        out: the study's folder. By default it is ``studies/benchmark-HASH``, with a hash of all arguments.
        workers: worker processes. The default is one per core.
        quiet: print no progress.
        **settings: keys of all runs, as in `train`.

    The same call continues a benchmark that was stopped. Raises as `study` and `compare`.
    """
    require_list("tasks", tasks)
    require_list("algorithms", algorithms)
    file = {
        "base": with_names(settings),
        "setting": _pairs(tasks, algorithms),
        "seeds": f"1-{seeds}" if isinstance(seeds, int) else seeds,
    }
    if len(tasks) > 1:
        _require_common_steps(file)
    place = out or f"studies/benchmark-{hashlib.sha256(to_json(file)).hexdigest()[:8]}"
    result = study(file, out=place, workers=workers, quiet=quiet)
    if all(run.status == "failed" for run in result.runs):
        raise UserError(f"all runs failed. {result.runs[0].name}: {result.runs[0].reason}")
    return compare(result.folder)


@short_errors(TrainingInterrupted, jobs="workers")
def ablate(
    config: ConfigLike = None,
    *,
    arms: Sequence[str] = (),
    seeds: str | Sequence[int] = "1-10",
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    random: float | None = None,
    headlines: Sequence[str] = (),
    reference: str | os.PathLike[str] | None = None,
    backend: str | None = None,
    address: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> AblationResult:
    """Compare sharing, scaling and placement rules over seeds: return, dollars and time against the first arm.

    Args:
        config: settings of all runs, as in `train`.
        arms: names such as ``ours`` or ``none+gns@split``, the baseline first. The default is all arms.
        seeds: the seeds of every arm, as a list or as ``1-10``.
        workers: parallel runs, each with a worker process. The default is one per core.
        out: the ablation's folder. By default it is ``ablations/TASK-ALGORITHM``.
        random: the return of random play, to report differences in per cent of the gain.
        headlines: contrasts declared before the runs, such as ``ours/packed:dollars``.
        reference: a run or policy file with the opponents of each side of competing agents.
        backend: ``ray`` for workers on the nodes of a cluster. The default is processes of this machine.
        address: the address of the cluster. By default, Ray finds it.
        quiet: print no progress.
        **settings: keys over those of `config`; tables as mappings.

    The same call continues an ablation that was stopped. Ctrl-C raises `TrainingInterrupted`.
    Raises `ConfigError` and `UserError`.
    """
    base = with_absolute_policies(configuration(config, settings, is_run=False))
    require_importable(base, backend or "local")
    folder, arm_list = None if out is None else Path(out), arms_by_name(arms or list(ARMS))
    opponents = None if reference is None else os.fspath(reference)
    ablation = plan(base, arm_list, seeds_of(seeds), folder, random, headlines, list(overrides(settings)), opponents)
    from marless.views.ablation_views import AblationLines

    with ends_at_once(lambda: _AGAIN), Signals() as signals:
        view = AblationView() if quiet else AblationLines(signals)
        listen = partial(registry.listening, backend, address)
        [result] = run_ablation([ablation], workers or cores(), signals, view, listen)
    return _unless_stopped(result, signals)


@short_errors(path="out")
def compare(
    *runs: str | os.PathLike[str],
    by: Sequence[str] = (),
    at: "Axis" = "steps",
    metric: str = "return",
    out: str | os.PathLike[str] | None = None,
) -> RunComparison:
    """Compare trained runs over seeds, with intervals. The result says which arms cannot be told apart.

    Args:
        runs: runs, or folders of runs, such as a study's. Other arms are compared with the arm of the first run.
        by: keys of the configuration that tell arms apart, such as ``algorithm.name``.
        at: compare runs at equal ``steps``, ``seconds`` or ``dollars``.
        metric: a metric of the environment to compare in place of the return.
        out: the folder for tables and pictures. By default, nothing is written.

    Raises `UserError` for runs that cannot be compared.
    """
    from marless.comparison import comparison_files

    result = compare_runs([*map(path_of, runs)], by, at, metric)
    if out is not None:
        comparison_files.write(Path(out), result.comparison, result.arms, result.left_out)
    return result


def _pairs(tasks: Sequence[Any], algorithms: Sequence[Any]) -> list[dict[str, Any]]:
    # Algorithms of the same name get a number.
    pairs = [spelled_out(with_names({"task": task, "algorithm": name})) for task in tasks for name in algorithms]
    tables = ("task", "algorithm") if len(tasks) > 1 else ("algorithm",)
    names = ["-".join(pair[table]["name"].rpartition(":")[2] for table in tables) for pair in pairs]
    labels = [f"{name}-{at}" if names.count(name) > 1 else name for at, name in enumerate(names)]
    clean = [re.sub("[^A-Za-z0-9_-]", "-", label).strip("-") for label in labels]
    return [{"name": name, "values": pair} for name, pair in zip(clean, pairs, strict=True)]


def _require_common_steps(file: Mapping[str, Any]) -> None:
    spans = list[tuple[str, int, int]]()
    for setting in file["setting"]:
        config = configuration(merge(file["base"], setting["values"]), {}, is_run=False)
        if (rounds := config.stop.rounds) is not None and config.evaluation.every_steps is None:
            length = config.actors.rollout_length or spec(config.task).horizon
            steps = config.actors.num_envs * config.actors.rollouts * length
            spans.append((setting["name"], min(config.evaluation.every, rounds) * steps, rounds * steps))
    late, first, _ = max(spans, key=lambda span: span[1], default=("", 0, 0))
    short, _, last = min(spans, key=lambda span: span[2], default=("", 0, 0))
    if first > last:
        fault = f"{short} ends at {last:,} environment steps, before the first evaluation of {late} at {first:,}"
        raise UserError(f"{fault}; give stop.env_steps in place of rounds, or a smaller evaluation.every")


def _unless_stopped(result: R, signals: Signals) -> R:
    """The `result`. Raises `TrainingInterrupted` if a signal stopped its runs."""
    if signals.received:
        raise TrainingInterrupted(f"stopped after the tasks in flight; {_AGAIN}", result)
    return result
