"""A run of MLflow, in the store that MLflow's own environment variables name."""

import logging
import os
import re
from collections.abc import Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from marless.loggers.base import LoggedRun, Logger, Point
from marless.loggers.valid_names import Names

_TAG = "marless.id"
# The limits of one request (MLflow REST API, "Log Batch"), and the longest value of a parameter.
_METRICS, _PARAMS, _LONGEST = 1000, 100, 6000
# The characters that a name may not hold (mlflow.utils.validation), its longest length with room for a number, and
# forbidden parts of a path.
_REFUSED = re.compile(r"[^A-Za-z0-9_\-. /]")
_LONGEST_NAME = 240
_NO_PARTS = ("", ".", "..")
_STATUS = {"finished": "FINISHED", "failed": "FAILED"}


class _TrackedRun:
    """The run, found again by a tag. It gets only the points that it lacks."""

    def __init__(self, run: LoggedRun) -> None:
        import mlflow

        # It sets its own level when it is imported, and says how it makes its tables.
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        self._mlflow, self._client, self._created = mlflow, mlflow.MlflowClient(), run.created
        self._id, stored_run = self._find(self._experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME", "marless")), run)
        self._names, self._keys = Names(_valid_name), Names(_valid_name)
        # Every metric is there up to this step.
        self._done = {
            name: max(metric.step for metric in self._client.get_metric_history(self._id, name))
            for name in stored_run.metrics
        }
        # A parameter cannot be changed, so a limit that was raised stays as it was at first.
        new = (
            (key, str(value)[:_LONGEST])
            for key, value in self._keys.of(run.settings).items()
            if key not in stored_run.params
        )
        while params := [mlflow.entities.Param(key, value) for key, value in islice(new, _PARAMS)]:
            self._client.log_batch(self._id, params=params)

    @property
    def where(self) -> str:
        return f"{self._mlflow.get_tracking_uri()}, run {self._id}"

    @property
    def renamed(self) -> dict[str, str]:
        """See `Writer`."""
        return self._names.replacements | self._keys.replacements

    def write(self, point: Point) -> None:
        """See `Writer`. Leaves out points that the store has."""
        at = round(1000 * (self._created + point.seconds))
        new = (
            self._mlflow.entities.Metric(name, value, at, point.env_steps)
            for name, value in self._names.of(point.scalars).items()
            if point.env_steps > self._done.get(name, -1)
        )
        while metrics := list(islice(new, _METRICS)):
            self._client.log_batch(self._id, metrics=metrics)

    def finish(self, artefacts: Sequence[Path], status: str) -> None:
        for path in artefacts:
            self._client.log_artifact(self._id, str(path))
        self._client.set_terminated(self._id, _STATUS.get(status, "KILLED"))

    def close(self) -> None:
        """Every request is answered by now."""

    def _experiment(self, name: str) -> str:
        experiment = self._client.get_experiment_by_name(name)
        return str(experiment.experiment_id if experiment else self._client.create_experiment(name))

    def _find(self, experiment: str, run: LoggedRun) -> tuple[str, Any]:
        matches = self._client.search_runs([experiment], f"tags.`{_TAG}` = '{run.id}'", max_results=1)
        if matches:
            self._client.update_run(matches[0].info.run_id, status="RUNNING")
            return str(matches[0].info.run_id), matches[0].data
        tags = {_TAG: run.id} | ({"marless.study": run.group} if run.group else {})
        new = self._client.create_run(experiment, start_time=round(1000 * run.created), tags=tags, run_name=run.name)
        return str(new.info.run_id), new.data


def _valid_name(name: str) -> str:
    """The name with the characters that MLflow refuses replaced. Parts that lead to other folders go too."""
    parts = _REFUSED.sub("_", name).split("/")
    safe_name = "/".join("_" * max(1, len(part)) if part in _NO_PARTS else part for part in parts)
    if len(safe_name) <= _LONGEST_NAME:
        return safe_name
    return f"{safe_name[: _LONGEST_NAME - 9]}-{sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


class _Mlflow(Logger):
    name = "mlflow"
    summary = "MLflow, in the store of MLFLOW_TRACKING_URI, or else where MLflow itself keeps runs"
    extra = "mlflow"

    def open(self, run: LoggedRun) -> _TrackedRun:
        """See `Logger`."""
        return _TrackedRun(run)


LOGGER = _Mlflow()
