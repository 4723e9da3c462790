"""Messages about unknown commands and options."""

import difflib
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from marless.program import program_name

# Commands, or lines that do the same, and the words of other programs and of people for them.
_OTHER_WORDS = {
    "check": "inspect validate",
    "cloud deploy": "deploy up",
    "cloud logs": "logs",
    "cloud policy": "policy",
    "cloud teardown": "destroy down teardown undeploy",
    "compare": "diff",
    "config": "cat keys settings",
    "config --short > my.toml": "init new",
    "doctor --completion": "completion",
    "estimate": "cost price",
    "estimate --simulate": "simulate",
    "evaluate": "eval test",
    "log latest --to tensorboard": "tensorboard",
    "log latest --to wandb": "wandb",
    "plan": "budget deadline",
    "replay": "enjoy render video visualize",
    "report": "dashboard plot serve show ui web",
    "report --timeline": "timeline",
    "resume": "continue",
    "runs": "history list ls ps",
    "runs archive RUN": "archive",
    "runs remove RUN": "clean del delete prune remove rm",
    "runs restore FILE": "unarchive",
    "runs verify": "verify",
    "status": "info",
    "status --bill": "bill",
    "status --follow": "tail watch",
    "stop": "cancel kill",
    "study": "grid hpo search sweep tune",
    "train": "fit launch learn run start",
}
_ENVIRONMENTS = ("env", "environments", "envs", "tasks")
_ALGORITHMS = ("algorithms", "algos")
# How alike the spellings of options are: `--lr` is no `--run`.
_ALIKE = 0.8


def unknown_command(argv: Sequence[str], commands: Collection[str]) -> str:
    """The first word of a line is no command: the message."""
    word = argv[0].rpartition(" ")[2].lstrip("-").lower()
    program = program_name()
    problem = f"there is no {'option' if argv[0].startswith('-') else 'command'} {argv[0]}"
    if line := next((line for line, words in _OTHER_WORDS.items() if word in words.split()), ""):
        return f"{problem}; did you mean: {program} {line}"
    if word in _ENVIRONMENTS:
        from marless.functions.environments.task_names import ENVIRONMENTS, family_examples

        return f"{problem}; task.name may be {', '.join([*ENVIRONMENTS, *family_examples()])}"
    if word in _ALGORITHMS:
        return f"{problem}; algorithm.name may be {', '.join(_algorithms())}"
    names = {name.split()[-1]: name for name in commands if name.startswith(argv[0].rpartition(" ")[0])}
    if nearest := difflib.get_close_matches(word, names, n=1):
        return f"{problem}; did you mean {names[nearest[0]]}?"
    if ("=" in argv[0] and not argv[0].startswith("-")) or argv[0].endswith(".toml"):
        return f"{problem}; did you mean: {program} train {shlex.join(argv)}"
    if setting := setting_of(argv[0]):
        return f"{problem}; did you mean: {program} train {setting}"
    return f"{problem}; {program} --help lists all, and {program} COMMAND --help what they take"


def unknown_option(option: str, argv: Sequence[str], options: Collection[str], takes_settings: bool) -> str:
    """Return the message for an unknown option of a command's line `argv`. The command has these `options`."""
    if not option.startswith("-"):
        return f"{option} is one argument too many; see {program_name()} {argv[0]} --help"
    name, _, value = option.lstrip("-").partition("=")
    if nearest := difflib.get_close_matches(option.partition("=")[0], options, n=1, cutoff=_ALIKE):
        return f"there is no option {option}; did you mean {nearest[0]}?"
    if not takes_settings:
        return f"there is no option {option}; see {program_name()} {argv[0]} --help"
    following = argv[argv.index(option) + 1 :][:1]
    value = value or next((text for text in following if not text.startswith("-") and "=" not in text), "")
    if name in ("config", "file", "f", "c"):
        return f"there is no option {option}; a file is named alone: {value or 'my.toml'}"
    if name == "name" and "--run" in options:
        run_name = f"--run {shlex.quote(value or 'NAME')}"
        return f"there is no option --name; type {setting_of(value) or run_name}"
    return _setting_for(f"there is no option {option.partition('=')[0]}", name.replace("-", "_"), value, argv)


def _setting_for(problem: str, word: str, value: str, argv: Sequence[str]) -> str:
    from marless.coordinator.config.config_keys import valid_keys
    from marless.coordinator.config.loading import algorithm_typed
    from marless.coordinator.config.unknown_keys import answer
    from marless.coordinator.config.value_faults import example_setting

    algorithm = algorithm_typed(argv)
    keys = valid_keys(algorithm)
    if key := next((key for key in (word, f"algorithm.{word}") if key in keys), ""):
        return f"{problem}; type {f'{key}={value}' if value else example_setting(key, algorithm)}"
    return answer(f"{problem}, settings are key=value", word, algorithm, value)


def setting_of(text: str) -> str:
    """Return the setting for the name of an algorithm or an environment. Return '' for another text.

    A word with a slash is an environment, unless it begins with a folder that exists. ``my_module:make`` names a
    PettingZoo environment.
    """
    from marless.functions.environments.language_task_names import is_language_task
    from marless.functions.environments.task_names import is_known
    from marless.functions.plug_in_registry import is_reference

    if text in _algorithms():
        return f"algorithm.name={text}"
    is_task = is_known(text) or is_language_task(text) or ("/" in text and not Path(text).parent.is_dir())
    prefix = "" if is_task else "pettingzoo:"
    return f"task.name={prefix}{text}" if is_task or is_reference(text) else ""


def unknown_word(text: str) -> str:
    """Return the message for a word that is no file, task or algorithm, with the nearest of their names."""
    from marless.functions.environments.task_names import ENVIRONMENTS

    names = {name.rpartition("/")[2]: name for name in (*_algorithms(), *ENVIRONMENTS)}
    nearest = difflib.get_close_matches(text, names, n=1)
    hint = f"did you mean {names[nearest[0]]}?" if nearest else "give a TOML file, a task, an algorithm or key=value"
    return f"there is no file {text}; {hint}"


def _algorithms() -> tuple[str, ...]:
    from marless.functions.algorithms import registry

    return registry.names()
