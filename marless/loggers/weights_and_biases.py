"""A run of Weights & Biases: on its server where the user is logged in, else in files that `wandb sync` sends later."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marless.loggers.base import LoggedRun, Logger, Point

FOLDER = "wandb"
_X = "env_steps"


class _WandbRun:
    """The run, with one id for every command that continues it.

    A server refuses points of steps that it has, so a continued run is not doubled there. Files without a server start
    again: earlier commands' files, which hold only the same points, are removed.
    """

    def __init__(self, run: LoggedRun) -> None:
        import wandb

        self._wandb, self._logged = wandb, run
        # wandb's own variable for the mode wins.
        offline = "WANDB_MODE" not in os.environ and not wandb.login(prompt=False, verify=False)
        folder = Path(os.environ.get("WANDB_DIR", run.folder))
        earlier = [path for path in folder.glob(f"{FOLDER}/offline-run-*-{run.id}*") if path.is_dir()]
        self._run: Any = wandb.init(
            id=run.id,
            name=run.name,
            project=os.environ.get("WANDB_PROJECT", "marless"),
            group=os.environ.get("WANDB_RUN_GROUP") or run.group or None,
            dir=folder,
            mode="offline" if offline else None,
            resume="allow",
            # The runs of a study are open at once.
            reinit="create_new",
            # The terminal and the command line, which may hold a key, stay here.
            settings=wandb.Settings(silent=True, console="off", x_disable_meta=True),
        )
        for path in earlier:
            shutil.rmtree(path)
        # Limits may have changed since the run began.
        self._run.config.update(dict(run.settings), allow_val_change=True)
        self._run.define_metric(_X)
        self._run.define_metric("*", step_metric=_X)
        self._next = int(self._run.step)

    @property
    def where(self) -> str:
        """The page of the run, or the folder for `wandb sync`."""
        return str(Path(self._run.dir).parent if self._run.offline else self._run.url)

    def write(self, point: Point) -> None:
        if point.number >= self._next:
            self._run.log({_X: point.env_steps, **point.scalars}, step=point.number)

    def finish(self, artefacts: Sequence[Path], status: str) -> None:
        for path in artefacts:
            if path.suffix in (".png", ".gif"):
                self._run.log({path.stem: self._wandb.Image(str(path))})
        files = self._wandb.Artifact(f"run-{self._logged.id}", type="run", metadata={"status": status})
        for path in artefacts:
            files.add_file(str(path))
        self._run.log_artifact(files)

    def close(self) -> None:
        self._run.finish()


class _WeightsAndBiases(Logger):
    name = "wandb"
    summary = f"Weights & Biases; without a login files for `wandb sync`, {FOLDER}/ in the run's folder"
    extra = "wandb"

    def open(self, run: LoggedRun) -> _WandbRun:
        """See `Logger`."""
        return _WandbRun(run)


LOGGER = _WeightsAndBiases()
