"""The client of a server: submit runs, look at them, stop them, and fetch their folders.

Examples:
    >>> lab = connect("http://127.0.0.1:8765")
    >>> run = lab.submit({"task": "mpe/simple_spread", "rounds": 50})
    >>> run.wait()["status"]
    'finished'
    >>> run.fetch("runs")
    PosixPath('runs/r3f9a1c22b0d4')
"""

import os
import secrets
import shutil
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from marless.coordinator.config.loading import read_toml
from marless.coordinator.errors import UserError
from marless.functions.encoding import Undecodable, from_json, to_json
from marless.runs.run_store import RunStore
from marless.runs.upkeep.archives import unpack
from marless.studies.study_file import load

URL, TOKEN, TOKEN_FILE = "MARLESS_SERVER", "MARLESS_SERVER_TOKEN", "~/.config/marless/server-token"
DEFAULT_URL = "http://127.0.0.1:8765"
OVER = ("stopped", "finished", "failed")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PATIENCE_S, _POLL_S, _PART_BYTES = 60.0, 1.0, 1 << 20


class ServerError(UserError):
    """The server refused a request, or cannot be reached.

    `status` is the status code of HTTP, 0 without an answer. `key` is the setting or header with the error, if any.
    """

    def __init__(self, message: str, status: int = 0, key: str = "") -> None:
        super().__init__(message)
        self.status, self.key = status, key


def connect(url: str | None = None, token_file: str | os.PathLike[str] | None = None) -> "Server":
    """Return the server at `url`. The default is the variable MARLESS_SERVER, or port 8765 of this machine.

    The token is in `token_file`, in the variable MARLESS_SERVER_TOKEN, or in ~/.config/marless/server-token.

    Raises:
        UserError: there is no token, or the address would send it unencrypted to another machine.
    """
    return Server(url or os.environ.get(URL) or DEFAULT_URL, _token(token_file))


class Server:
    """A server of a lab, as one owner. Every method raises `ServerError`."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise UserError(f"{url} is no address of a server, such as {DEFAULT_URL}")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise UserError(f"{url} would send your token unencrypted. Use https://, or an ssh tunnel to {DEFAULT_URL}")
        self.url, self._parts, self._token = url.rstrip("/"), parts, token

    def __repr__(self) -> str:
        return f"<Server {self.url}>"

    def submit(self, config: str | os.PathLike[str] | Mapping[str, Any], *, key: str | None = None) -> "RemoteRun":
        """Put a run into the queue.

        Args:
            config: the path of a TOML file, or tables as for `marless.train`.
            key: a name of the submission. A second submission with the same name is the same run.
        """
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return RemoteRun(self, self._call("POST", "/submissions", _tables(config), headers)["id"])

    def check(self, config: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
        """Check a configuration without a submission. Return its task, its algorithm and its price: dollars, seconds,
        and the seconds until it begins and ends."""
        return self._call("POST", "/submissions/check", _tables(config))

    def submit_study(
        self, study: str | os.PathLike[str] | Mapping[str, Any], *, key: str | None = None
    ) -> "RemoteStudy":
        """Put all runs of a study into the queue. `study` is a file as for `marless study`, or its tables."""
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return RemoteStudy(self, self._call("POST", "/studies", _study_tables(study), headers)["id"])

    def check_study(self, study: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Any]:
        """Check a study without a submission. Return the number of its runs and their price together."""
        return self._call("POST", "/studies/check", _study_tables(study))

    def study(self, study: str) -> "RemoteStudy":
        """Return a study by its id."""
        return RemoteStudy(self, study)

    def run(self, run: str) -> "RemoteRun":
        """Return a run by its id."""
        return RemoteRun(self, run)

    def runs(self, status: str | None = None) -> list[dict[str, Any]]:
        """Return your runs, the newest first. `status` selects runs with this status."""
        result, cursor = list[dict[str, Any]](), None
        while True:
            query = {name: value for name, value in (("status", status), ("cursor", cursor)) if value is not None}
            page = self._call("GET", f"/runs?{urlencode(query)}")
            result += page["runs"]
            if (cursor := page["cursor"]) is None:
                return result

    def pool(self) -> dict[str, Any]:
        """Return the slots, the queue with places and reasons, and the owners with their usage of today."""
        return self._call("GET", "/pool")

    def about(self) -> dict[str, Any]:
        """Return your name, rights and quotas."""
        return self._call("GET", "")

    def _call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        with self._answer(method, path, body, headers) as answer:
            return from_json(answer.read(), dict[str, Any])

    @contextmanager
    def _answer(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[HTTPResponse]:
        sent = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", **(headers or {})}
        host, port = self._parts.hostname or "", self._parts.port
        connection = (
            HTTPSConnection(host, port, timeout=_PATIENCE_S, context=ssl.create_default_context())
            if self._parts.scheme == "https"
            else HTTPConnection(host, port, timeout=_PATIENCE_S)
        )
        try:
            connection.request(method, f"/api/v1{path}", None if body is None else to_json(body), sent)
            answer = connection.getresponse()
            if answer.status >= 300:
                raise _error(answer)
            yield answer
        except (OSError, HTTPException) as error:
            raise ServerError(f"{self.url} does not answer: {error or type(error).__name__}") from error
        finally:
            connection.close()


class RemoteRun:
    """A run on a server. Every method raises `ServerError`."""

    def __init__(self, server: Server, run: str) -> None:
        self.server, self.id = server, run
        self._path = f"/runs/{quote(run, safe='')}"

    def __repr__(self) -> str:
        return f"<RemoteRun {self.id} on {self.server.url}>"

    def status(self) -> dict[str, Any]:
        """Return the status, the place in the queue with its reason, the progress, the bill and the settings."""
        return self.server._call("GET", self._path)

    def stop(self) -> None:
        """Stop the run after its tasks in flight. `resume` continues it."""
        self.server._call("POST", f"{self._path}/stop")

    def resume(self, **limits: float) -> None:
        """Queue the run again, or change limits of a run that waits or trains, such as ``rounds=200`` or
        ``dollars=2``."""
        self.server._call("POST", f"{self._path}/resume", {"stop": limits})

    def keep(self, keep: bool = True) -> None:
        """Keep the run, although the server deletes your old runs. `False` takes this back."""
        self.server._call("PATCH", self._path, {"keep": keep})

    def delete(self) -> None:
        """Delete the run with its folder on the server. It must have stopped or ended."""
        self.server._call("DELETE", self._path)

    def rounds(self) -> list[dict[str, Any]]:
        """Return the rows of the run's metrics.jsonl, one for each round."""
        rows, after = list[dict[str, Any]](), 0
        while True:
            page = self.server._call("GET", f"{self._path}/rounds?after={after}")
            rows += page["rounds"]
            if not (after := page["after"] or 0):
                return rows

    def log(self) -> str:
        """Return the run's log, a line for each event."""
        with self.server._answer("GET", f"{self._path}/log") as answer:
            return answer.read().decode()

    def wait(self, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait until the run has stopped or ended, and return its status. Raises `TimeoutError`."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while (status := self.status())["status"] not in OVER:
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"{self.id} is {status['status']} after {timeout_s:g} s")
            time.sleep(_POLL_S)
        return status

    def fetch(self, folder: str | os.PathLike[str] = "runs") -> Path:
        """Put the run's folder into `folder`, and return its path. Every command of MARLess takes it.

        Raises `UserError` if a run of this name is there.
        """
        store = RunStore(Path(folder))
        with TemporaryDirectory() as place, self.server._answer("GET", f"{self._path}/archive") as answer:
            path = Path(place) / "run.tar.gz"
            with path.open("wb") as file:
                shutil.copyfileobj(answer, file, _PART_BYTES)
            return unpack(path, store).path


class RemoteStudy:
    """Runs of a server that were submitted together. Every method raises `ServerError`."""

    def __init__(self, server: Server, study: str) -> None:
        self.server, self.id = server, study

    def __repr__(self) -> str:
        return f"<RemoteStudy {self.id} on {self.server.url}>"

    def status(self) -> list[dict[str, Any]]:
        """Return the status of each run, as `RemoteRun.status` does without settings."""
        runs: list[dict[str, Any]] = self.server._call("GET", f"/studies/{self.id}")["runs"]
        return runs

    def runs(self) -> list[RemoteRun]:
        """Return the runs."""
        return [RemoteRun(self.server, run["id"]) for run in self.status()]

    def stop(self) -> None:
        """Stop all runs after their tasks in flight. `resume` continues them."""
        self.server._call("POST", f"/studies/{self.id}/stop")

    def resume(self) -> None:
        """Queue stopped and failed runs again."""
        self.server._call("POST", f"/studies/{self.id}/resume")


def _tables(config: str | os.PathLike[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    return config if isinstance(config, Mapping) else read_toml(Path(config))


def _study_tables(study: str | os.PathLike[str] | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tables of a study. The run's file that it names is read here, as the server cannot see it."""
    if isinstance(study, Mapping):
        return study
    tables: dict[str, Any] = msgspec.to_builtins(load(Path(study)))
    return tables


def _token(file: str | os.PathLike[str] | None) -> str:
    if file is None and (text := os.environ.get(TOKEN)):
        return text.strip()
    path = Path(file or TOKEN_FILE).expanduser()
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(f"{path} has no token ({reason}): write it there, or into the variable {TOKEN}") from error


def _error(answer: HTTPResponse) -> ServerError:
    body = answer.read(1 << 16)
    try:
        problem = from_json(body, dict[str, Any])
    except Undecodable:
        return ServerError(f"the server answered {answer.status} {answer.reason}", answer.status)
    key, detail = str(problem.get("key", "")), str(problem.get("detail", ""))
    prefix = "" if not key or key in detail else f"{key}: "
    return ServerError(f"{prefix}{detail}", answer.status, key)
