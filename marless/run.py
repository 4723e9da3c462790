"""A run on disk, as a notebook reads it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from marless.user_errors import is_user_error, path_of, short_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from marless.reports.evaluations import Evaluation
    from marless.reports.policy import TeamPolicy
    from marless.runs.evaluation import EvaluationResult
    from marless.runs.folder import RunFolder
    from marless.runs.summary import Summary


class Run:
    """A run's folder. Every call reads the files of that moment. A run is also the path of its folder.

    A notebook shows it with its status, returns, bill and learning curve.

    Examples:
        >>> run = marless.open_run("runs/latest")
        >>> run
        <Run runs/simple_spread-mappo-s1-20261123-101500: finished, 400 rounds, return -32.7 ± 0.4, $0.019>
        >>> run.summary.final_return.mean, run.summary.dollars.total
        (-32.7, 0.019)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path_of(path))

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self._summary('line') or 'it cannot be read'}>"

    def _repr_html_(self) -> str | None:
        """Return the card for notebooks, None before the first round. Notebooks then show the line of text."""
        return self._summary("card")

    def _summary(self, form: Literal["line", "card"]) -> str | None:
        from marless.page import run_card

        try:
            return run_card.line(self._folder()) if form == "line" else run_card.card(self._folder())
        except Exception as error:
            if not is_user_error(error) and not isinstance(error, OSError):
                raise
            return None

    @property
    def folder(self) -> Path:
        """The run's folder, the same as `path`. Studies and exports have this name too."""
        return self.path

    @property
    def name(self) -> str:
        """The run's name."""
        return self.path.resolve().name

    @property
    @short_errors()
    def summary(self) -> "Summary":
        """summary.json: status, returns with intervals, steps, seconds, dollars. Raises `UserError` without one."""
        from marless.coordinator.errors import UserError
        from marless.runs import summary

        if (run_summary := summary.read(self._folder())) is None:
            raise UserError(f"{self.path} has no summary yet; it comes with the first evaluation")
        return run_summary

    @short_errors()
    def metrics(self) -> list[dict[str, Any]]:
        """One row per finished round: returns, losses, decisions, dollars."""
        import msgspec

        from marless.reports import journal

        return [msgspec.to_builtins(line) for line in journal.read(self._folder().path / "metrics.jsonl")]

    @short_errors()
    def frame(self) -> "DataFrame":
        """Return `metrics` as a frame of pandas, or of polars. Nested values become columns such as
        ``metrics.policy/kl/g00``.

        Raises `UserError` without both packages. The extra ``notebook`` installs pandas.
        """
        from marless.reports.notebook.data_frame import data_frame

        return data_frame(self.metrics(), "run.frame()")

    @short_errors()
    def evaluations(self) -> "list[Evaluation]":
        """Greedy evaluations, oldest first and the final policies last, with returns by episode and the steps so far.

        Raises `FileNotFoundError` before the run has ended once.
        """
        from marless.coordinator.file_reading import read_file
        from marless.reports import evaluations

        return evaluations.read(read_file(self._folder().path / "evaluations.json"))

    @short_errors()
    def policy(self, best: bool = False) -> "TeamPolicy":
        """The final policies, or the best evaluation's policies. Raises `FileNotFoundError` before the run's end."""
        from marless.reports.policy import load_policy

        return load_policy(self._folder().path / ("best_policies.safetensors" if best else "policies.safetensors"))

    @short_errors()
    def plot(self) -> "Figure":
        """The learning curve as a matplotlib figure, which a notebook shows. Raises `MissingExtra` without matplotlib,
        and `UserError` before the first round has ended.
        """
        from marless.coordinator.errors import UserError
        from marless.reports import learning_curve
        from marless.runs.run_files import curve_title, stored_curve

        folder = self._folder()
        if not (points := stored_curve(folder)):
            raise UserError(f"{self.path} has no finished round yet, so there is no curve")
        return learning_curve.figure(points, curve_title(folder.config()), self.name)

    @short_errors()
    def evaluate(
        self,
        *,
        episodes: int | None = None,
        workers: int | None = None,
        task: Mapping[str, Any] | None = None,
        greedy: bool | None = None,
        trust: bool = False,
    ) -> "EvaluationResult":
        """Play the newest policies on fresh start states. Returns are undiscounted. As `marless.evaluate`. A notebook
        shows how many episodes are over.
        """
        from marless.coordinator.config.loading import overrides
        from marless.runs import evaluation
        from marless.runs.integrity.trusted_origin import playable
        from marless.views import cell_progress

        with cell_progress() as progress:
            acting = {} if greedy is None else {"greedy": f"{greedy}".lower()}
            settings = list(overrides({"task": task or {}, "evaluation": acting}))
            return evaluation.evaluate(playable(self, trust), workers, episodes, settings, progress)

    @short_errors(path="out")
    def replay(
        self,
        out: str | os.PathLike[str] | None = None,
        episodes: int = 3,
        *,
        beside: str | None = None,
        agents: int | None = None,
        trust: bool = False,
    ) -> Path:
        """Draw greedy episodes as an animation and return its path. A notebook shows the path as a GIF. As
        `marless.replay`.
        """
        from marless.replays.replay_file import record
        from marless.runs.integrity.trusted_origin import playable

        return record(playable(self, trust), None if out is None else Path(out), episodes, beside, agents)

    def _folder(self) -> "RunFolder":
        from marless.runs.run_store import RUNS

        return RUNS.find(str(self.path))


@short_errors()
def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run by its folder, its name under ``runs/``, or ``latest``. Raises `UserError` if there is none."""
    from marless.runs.run_store import RUNS

    return Run(RUNS.find(path_of(path)).path)


@short_errors()
def load_policy(path: str | os.PathLike[str]) -> "TeamPolicy":
    """Load the policies of a run, by its folder, its name or ``latest``, or of a policy file. Raises `UserError`,
    `FileNotFoundError` or `CorruptObject`.
    """
    from marless.reports import policy

    place, suffixes = Path(path_of(path)), (".safetensors", ".zip")
    is_file = place.suffix in suffixes or place.is_file() or (place / policy.FILE).is_file()
    return policy.load_policy(path if is_file else open_run(path).path)
