"""Training and resuming from Python, like the commands of these names."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from marless import existing_run
from marless.backends import registry
from marless.coordinator.config.defaults import fill_default_run, placed_in_cloud
from marless.coordinator.config.loading import convert, overrides, read_toml, spelled_out
from marless.coordinator.config.nested_tables import flatten, merge
from marless.coordinator.config.renamed_keys import with_new_names
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import USER_ERROR, Ending, UserError
from marless.existing_run import Exist
from marless.functions.algorithms.specification import AlgorithmSpec
from marless.infra.local.available_cores import cores
from marless.output import show_remarks
from marless.reports.text import counted
from marless.reports.user_code.named_objects import require_importable, with_names
from marless.run import Run
from marless.runs import train_and_resume
from marless.runs.drive_settings import DriveSettings, RunLocation
from marless.runs.folder import RunFolder
from marless.runs.inputs.required_packages import require_packages
from marless.runs.integrity.trusted_origin import playable
from marless.runs.summary import has_finished
from marless.runs.view import View
from marless.signals import Interrupted, Signals, ended_by_signal
from marless.user_errors import require_list, short_errors
from marless.views.callbacks import Callback, with_callbacks

if TYPE_CHECKING:
    from marless.settings import RunKeys

ConfigLike = str | os.PathLike[str] | Mapping[str, Any] | Callable[..., Any] | None
"""A task by its name or its class, the path of a TOML file, or tables. The defaults without one."""
# An algorithm by its name, its settings, its specification, or a function that makes the specification.
AlgorithmLike = str | Mapping[str, Any] | AlgorithmSpec | Callable[[], AlgorithmSpec] | None


class RunFailed(Exception):
    """A run failed after it began. `run` holds its results so far."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.run = run


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C, the interrupt of a notebook's kernel or a signal stopped training after the tasks in flight. A second one
    ends it at once.

    The message says how to continue. `result` is a `Run`, or the result of `study` or `ablate`. It is None if training
    ended at once or never began. As a `KeyboardInterrupt` it stops scripts and the cells that follow.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


def configuration(config: ConfigLike, settings: Mapping[str, Any], is_run: bool = True) -> RunConfig:
    """Return the configuration of a file or a mapping with `settings` over it. Raises `ConfigError`.

    `is_run`: it can be the default run. Studies and ablations begin with the defaults of the algorithm.
    """
    document, where = _document(config, settings)
    return convert(fill_default_run(document)[0] if is_run else document, where)


def _document(config: ConfigLike, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    if isinstance(config, os.PathLike) or (
        isinstance(config, str) and (config.endswith(".toml") or Path(config).is_file())
    ):
        document, where = read_toml(Path(config)), os.fspath(config)
    else:
        tables = config if config is None or isinstance(config, Mapping) else {"task": config}
        document, where = with_names(tables or {}), "the configuration"
    layers = (with_new_names(spelled_out(layer)) for layer in (document, with_names(settings)))
    return merge(*layers), where


@short_errors(RunFailed, TrainingInterrupted)
def train(
    config: ConfigLike = None,
    algorithm: AlgorithmLike = None,
    *,
    backend: str = "local",
    workers: int | None = None,
    run: str | None = None,
    exist: Exist = "error",
    quiet: bool = False,
    callbacks: Sequence[Callback] = (),
    **settings: Unpack["RunKeys"],
) -> Run:
    """Train a new run under ``runs/`` of the current folder, and return it when it ends.

    Args:
        config: a task by its name, the class of a PettingZoo `ParallelEnv`, a function that makes one, or a function of
            `tokenizer` that makes a language task. It may also be the path of a TOML file, or a mapping of its tables.
            By default, a run has the default settings.
        algorithm: its name, its settings, an `AlgorithmSpec`, or a function that makes one.
        backend: where functions run: ``local``, ``inline``, ``emulated``, ``aws``, or a plug-in's.
        workers: worker processes. The default is one per core.
        run: the run's name. By default it has the task, the algorithm, the seed and the time.
        exist: the reaction to an existing run of that name: raise an error (``error``), continue it (``resume``), or
            train a new run and then delete the old folder (``replace``). ``resume`` returns a finished run unchanged.
            It raises an error if settings other than higher limits differ.
        quiet: print no progress.
        callbacks: functions of the row of each round, as in `Run.metrics`. If one returns True, the run stops after
            that round, and you can resume it.
        **settings: keys over those of `config`; tables as mappings. `task`, `network` and `rounds` are short for
            ``task.name``, ``algorithm.network`` and ``stop.rounds``. ``task={"options": {"size": 4}}`` passes an option
            to the environment, and `horizon` there is the length of its episodes.
            `network` may be a class or function of a torch module. ``Net(shape).forward(observation, rest)`` takes
            ``[B, *shape.observation]`` and ``[B, shape.rest]``, and returns ``[B, shape.outputs]``.

    Raises:
        ConfigError: the configuration has a mistake. The message is one line.
        UserError: nothing could be trained. The message is one line with the remedy.
        RunFailed: the run began and failed. `resume` continues it.
        TrainingInterrupted: Ctrl-C, or the interrupt of a notebook's kernel, stopped the run. `resume` continues it.

    A run that reached a cap raises no error: see `Run.summary` for its status.

    Examples:
        >>> marless.train("mpe/simple_spread", "qmix", rounds=50, seed=1)
        >>> marless.train(lambda: MyEnvironment(size=4), network=MyModule)
        >>> marless.train("my.toml", seed=7, stop={"rounds": 4})
        <Run runs/simple_spread-mappo-s7-20261123-101500: finished, 4 rounds, return -71.3 ± 0.5, $0.00021>
    """
    algorithm_setting = {} if algorithm is None else {"algorithm": algorithm}
    place, (document, where) = registry.backend(backend), _document(config, {**settings, **algorithm_setting})
    run_config = convert(fill_default_run(document)[0], where)
    require_importable(run_config, backend)
    earlier, folders = existing_run.find(run, exist), list[RunFolder]()
    drive = _drive(workers, quiet, folders.append, callbacks)
    with ends_at_once(lambda: _how_to_go_on(folders)):
        if earlier is None:
            return run_of(*train_and_resume.train(run_config, RunLocation(place), drive, run))
        if exist == "replace":
            require_packages(run_config, place.runs_here)
            with existing_run.replaced(earlier):
                return run_of(*train_and_resume.train(run_config, RunLocation(place), drive, run))
        placed_config = placed_in_cloud(run_config) if place.remote else run_config
        limits = existing_run.new_limits(earlier, placed_config, flatten(document).keys(), place.name)
        if not limits and has_finished(earlier):
            return Run(earlier.path)
        return run_of(earlier, train_and_resume.resume(earlier, limits, drive))


@short_errors(RunFailed, TrainingInterrupted)
def resume(
    run: str | os.PathLike[str],
    *,
    workers: int | None = None,
    quiet: bool = False,
    trust: bool = False,
    changed_code: bool = False,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Run:
    """Continue a run that was stopped, was killed or failed, or train it further under higher limits.

    `settings` may hold `stop` and the functions' ``timeout_s``. `evaluate` explains `trust`, and `train` explains
    `callbacks`: a run keeps the names of its callbacks, and a resumed run needs them again. With `changed_code` the run
    continues although its code changed since it began, and it records the changes. Raises as `train`.
    """
    folder, folders = playable(run, trust), list[RunFolder]()
    drive = _drive(workers, quiet, folders.append, callbacks)
    with ends_at_once(lambda: _how_to_go_on(folders)):
        limits = list(overrides(spelled_out(settings)))
        return run_of(folder, train_and_resume.resume(folder, limits, drive, changed_code=changed_code))


@contextmanager
def ends_at_once(how_to_go_on: Callable[[], str]) -> Iterator[None]:
    """Show remarks, unless the program handles the log. Raise `TrainingInterrupted` at the second signal."""
    show_remarks(unless_handled=True)
    try:
        yield
    except Interrupted:
        raise TrainingInterrupted(f"stopped at once; {how_to_go_on()}") from None


def _how_to_go_on(folders: list[RunFolder]) -> str:
    if not folders or not folders[-1].begun:
        return "nothing was begun"
    return f"go on with: marless.resume({folders[-1].name!r})"


def _drive(
    workers: int | None, quiet: bool, on_folder: Callable[[RunFolder], None], callbacks: Sequence[Callback] = ()
) -> DriveSettings:
    require_list("callbacks", callbacks)
    if not all(map(callable, callbacks)):
        raise UserError("callbacks are functions that take the row of a round, such as callbacks=[print]")

    def make_view() -> View:
        """Return the view of the run."""
        from marless.views import choose_view

        view = View() if quiet else choose_view(json=False)
        return with_callbacks(view, callbacks, signals.stop) if callbacks else view

    signals = Signals()
    return DriveSettings(workers or cores(), make_view, time.monotonic(), on_folder=on_folder, signals=signals)


def run_of(folder: RunFolder, ending: Ending) -> Run:
    """Return the run, or raise the error of its ending."""
    if not ending.keeps_folder:
        raise UserError(ending.line)
    run = Run(folder.path)
    if ended_by_signal(ending.code):
        done = f"stopped after {counted(run.summary.rounds, 'round')}"
        raise TrainingInterrupted(f"{done}; {_how_to_go_on([folder])}", run)
    if ending.code == USER_ERROR or (ending.code and run.summary.status == "failed"):
        raise RunFailed(ending.line, run)
    return run
