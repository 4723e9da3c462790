"""Completion in a shell, by argcomplete: commands, options, names of runs, and settings with their values.

argcomplete calls the program for every press of the tab key, with the line in variables of the environment.
"""

from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

# Folders of runs that belong together.
COLLECTIONS = ("studies", "ablations")
# A resumed run keeps all other settings.
_LIMITS = ("stop.", "functions.", "log.", "resources.")


def completers(command: str) -> Mapping[str, Callable[..., Any]]:
    """Return the completers of a command's arguments, by the name of the argument."""

    def settings(prefix: str, parsed_args: Namespace, **_: Any) -> dict[str, str]:
        candidates = setting_candidates(prefix, getattr(parsed_args, "settings", None) or [])
        if command == "resume":
            return {text: meaning for text, meaning in candidates.items() if text.startswith(_LIMITS)}
        return candidates | _files(prefix)

    def runs(prefix: str, **_: Any) -> list[str]:
        collections = (f"{parent}/{name}" for parent in COLLECTIONS for name in _folders(parent))
        names = dict.fromkeys(["latest", *_folders("runs"), *collections])
        return [name for name in names if name.startswith(prefix)]

    def studies(prefix: str, **_: Any) -> list[str]:
        """Return the studies that were begun, and files."""
        names = sorted(path.parent.name for path in Path("studies").glob("*/study.json"))
        return [*(name for name in names if name.startswith(prefix)), *_files(prefix)]

    return {"settings": settings, "study": studies, **dict.fromkeys(("run", "runs", "against", "beside"), runs)}


def setting_candidates(prefix: str, typed: list[str]) -> dict[str, str]:
    """Return the settings that begin with `prefix`, up to the equals sign, and their meanings. Values follow the sign.
    `typed` has the settings before it, which may name the algorithm."""
    from marless.coordinator.config.config_keys import general, particular, valid_keys
    from marless.coordinator.config.loading import algorithm_typed

    algorithm = algorithm_typed(typed)
    key, equals, _ = prefix.partition("=")
    meanings = valid_keys(algorithm)
    if not equals:
        typed_meanings = {particular(name, prefix): meaning for name, meaning in meanings.items()}
        return {f"{name}=": meaning for name, meaning in typed_meanings.items() if name.startswith(prefix)}
    described = general(key)
    settings = (f"{key}={value}" for value in _values(described, algorithm)) if described in meanings else ()
    return {setting: meanings[described] for setting in settings if setting.startswith(prefix)}


def _values(key: str, algorithm: str) -> list[str]:
    from marless.coordinator.config.checks import NETWORKS
    from marless.coordinator.config.config_keys import RULES
    from marless.coordinator.config.value_faults import choices, example_setting
    from marless.functions.algorithms import registry
    from marless.functions.environments.task_names import ENVIRONMENTS, family_examples
    from marless.loggers.registry import LOGGERS

    listed: Mapping[str, Callable[[], list[str]]] = {
        "algorithm.name": lambda: [*registry.names()],
        "algorithm.network": lambda: [*NETWORKS],
        "log.to": lambda: [*LOGGERS],
        "task.name": lambda: [*ENVIRONMENTS, *family_examples()],
    }
    if key in RULES:
        return [*RULES[key]]
    return (
        listed[key]() if key in listed else choices(key, algorithm) or [example_setting(key, algorithm).split("=")[1]]
    )


def _files(prefix: str) -> dict[str, str]:
    parent = "".join(prefix.rpartition("/")[:2])  # like the typed text: completions of ./my.toml begin with ./
    paths = [path for path in Path(parent).glob("*") if path.suffix == ".toml" or (prefix and path.is_dir())]
    names = (f"{parent}{path.name}{'/' if path.is_dir() else ''}" for path in paths)
    return {name: "a configuration file" for name in names if name.startswith(prefix)}


def _folders(parent: str) -> list[str]:
    return sorted(path.name for path in Path(parent).glob("*/") if path.name[0] != ".")
