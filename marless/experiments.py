"""Studies, ablations and comparisons from Python: the same functions that the commands call."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coordinator.errors import UserError
from infra.local.own_process import cores
from marless.ablation.ablate import AblationResult, AblationView, plan, reference_policy
from marless.ablation.ablate import ablate as run_ablation
from marless.ablation.arms import ARMS, choose_arms
from marless.comparison.compare_runs import RunComparison, compare_runs
from marless.driving import configuration, overrides
from marless.run import Run
from marless.runs.folder import RunFolder, require_name
from marless.runs.policies import with_absolute_policies
from marless.signals import Signals
from marless.studies import cloud_study
from marless.studies.campaign import CampaignView
from marless.studies.seeds import seeds_of
from marless.studies.study_file import StudyFile, load, parse
from marless.studies.training import ROOT, StudyResult, begun_study, open_study, train_study

if TYPE_CHECKING:
    from marless.comparison.curve import Axis

__all__ = ["ablate", "compare", "study"]


def study(
    file: str | os.PathLike[str] | Mapping[str, Any],
    out: str | os.PathLike[str] | None,
    slots: int | None,
    quiet: bool,
) -> StudyResult:
    """See `marless.study`."""
    folder, settings = _study_file(file, out)
    if settings is not None and slots is not None:
        pool = msgspec.structs.replace(settings.pool, slots=slots)
        settings = msgspec.structs.replace(settings, pool=pool)
    if cloud_study.place_of(folder):
        raise UserError(f"{folder} holds a study in the cloud, which the command marless study goes on with")
    folder.mkdir(parents=True, exist_ok=True)
    with Signals() as signals, RunFolder(folder).driving():
        return train_study(open_study(folder, settings), signals, _study_view(quiet))


def ablate(
    config: str | os.PathLike[str] | Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    arms: Sequence[str],
    seeds: str | Sequence[int],
    jobs: int | None,
    out: str | os.PathLike[str] | None,
    random: float | None,
    headlines: Sequence[str],
    reference: str | os.PathLike[str] | None,
    quiet: bool,
) -> AblationResult:
    """See `marless.ablate`."""
    base = with_absolute_policies(configuration(config, settings))
    folder, arm_list = None if out is None else Path(out), choose_arms(arms, {}, list(ARMS))
    ablation = plan(base, arm_list, seeds_of(seeds), folder, random, headlines, list(overrides(settings)))
    if reference is not None:
        ablation = replace(ablation, reference=reference_policy(os.fspath(reference), base))
    with Signals() as signals:
        return run_ablation(ablation, jobs or cores(), signals, _ablation_view(quiet, signals))


def compare(
    runs: Sequence[str | os.PathLike[str] | Run],
    by: Sequence[str],
    at: "Axis",
    metric: str,
    path: str | os.PathLike[str] | None,
) -> RunComparison:
    """See `marless.compare`."""
    from marless.comparison import report

    names = [os.fspath(run.path if isinstance(run, Run) else run) for run in runs]
    result = compare_runs(names, by, at, metric)
    if path is not None:
        report.write(Path(path), result.comparison, result.arms, result.left_out)
    return result


def _study_file(
    file: str | os.PathLike[str] | Mapping[str, Any], out: str | os.PathLike[str] | None
) -> tuple[Path, StudyFile | None]:
    """The study's folder, and its file unless the study itself is named."""
    if isinstance(file, Mapping):
        if out is None:
            raise UserError("a study that is no file needs its folder, such as out='studies/rates'")
        return Path(out), parse(file, "the study", Path())
    path = Path(file)
    if path.suffix != ".toml":
        return begun_study(os.fspath(file)), None
    require_name(path.stem, "the name of the file")
    return ROOT / path.stem if out is None else Path(out), load(path)


def _study_view(quiet: bool) -> CampaignView:
    from marless.views.study import choose_study_view

    return CampaignView() if quiet else choose_study_view(json=False)


def _ablation_view(quiet: bool, signals: Signals) -> AblationView:
    from marless.views.ablation import AblationLines

    return AblationView() if quiet else AblationLines(signals)
