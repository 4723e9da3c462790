"""Read the settings of a study's runs from its folder, and the requested order of settings."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from marless.comparison.run_evaluations import ListedSetting
from marless.coordinator.file_reading import UnreadableFile, read_json
from marless.runs.folder import RunFolder
from marless.studies import decisions
from marless.studies.decisions import Asked
from marless.studies.study import FILE
from marless.studies.study_file import StudyFile

# The end of a run's name, after the setting's name.
_SEED = re.compile(r"-s(\d+)$")


def listed_settings() -> Callable[[RunFolder], ListedSetting | None]:
    """Return a function from a run to its setting in a study's list. It reads each file once."""
    names = cache(_names)

    def setting_of(folder: RunFolder) -> ListedSetting | None:
        path = folder.path.resolve()
        study = path.parents[1]
        setting, _ = _parts(path.name)
        return ListedSetting(study, setting) if path.parent.name == "runs" and setting in names(study) else None

    return setting_of


def ordered(study: Path, runs: Iterable[Path]) -> list[Path]:
    """The folders of runs in the order of the settings that the study asked for, and by seed, others by name."""
    asked_names: list[str] = []
    # If a study's own files are unreadable, its runs are compared all the same.
    with suppress(UnreadableFile):
        asked_names = [one.name for one in decisions.read(study) if isinstance(one, Asked)]
    rank = {name: position for position, name in enumerate(asked_names)}
    return sorted(runs, key=lambda run: (rank.get(_parts(run.name)[0], len(rank)), _parts(run.name), run.name))


def _parts(run: str) -> tuple[str, int]:
    match = _SEED.search(run)
    return (run[: match.start()], int(match[1])) if match else (run, 0)


def _names(study: Path) -> frozenset[str]:
    try:
        file = read_json(study / FILE, StudyFile)
    except UnreadableFile:
        return frozenset()
    return frozenset(setting.name for setting in file.setting)
