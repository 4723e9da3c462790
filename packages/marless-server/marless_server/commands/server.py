"""marless server: submits runs to a server that other people share, shows them, and fetches their folders."""

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from marless.cli import arguments as common
from marless.coordinator.config.loading import STUDY_TABLES, read_toml
from marless.coordinator.errors import FINISHED, UNFINISHED, UserError
from marless.output import say, say_json
from marless.program import program_name
from marless.reports.digits import figure
from marless.reports.text import counted, money, seconds, table
from marless_server.admission import with_settings
from marless_server.client import DEFAULT_URL, OVER, TOKEN, TOKEN_FILE, URL, RemoteRun, RemoteStudy, Server, connect
from marless_server.mcp_tools import tool_server

EXAMPLES = f"""examples:
  marless server check my_run.toml         its price, without a submission
  marless server submit my_run.toml seed=3
  marless server submit lr.toml            all runs of a study
  marless server pool                      slots, and the queue with reasons
  marless server runs
  marless server status r3f9a1c22b0d4
  marless server watch r3f9a1c22b0d4       until it has stopped or ended
  marless server stop r3f9a1c22b0d4        or a study, s41c07be2a9d3
  marless server resume r3f9a1c22b0d4 stop.rounds=200
  marless server get r3f9a1c22b0d4         its folder, runs/r3f9a1c22b0d4
  marless server keep r3f9a1c22b0d4        until you release or delete it
  marless server delete r3f9a1c22b0d4      with its folder on the server
  marless server mcp                       tools for language models, over stdio

Your token is in {TOKEN_FILE}, or in the variable
{TOKEN}."""

_POLL_S = 2.0


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("verb", choices=sorted(_VERBS), metavar="VERB", help=", ".join(_VERBS))
    parser.add_argument(
        "settings",
        nargs="*",
        metavar="RUN | FILE.toml | key=value",
        help="a run's id, or a configuration with settings",
    )
    parser.add_argument("--server", metavar="URL", help=f"its address (default: {URL}, or {DEFAULT_URL})")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help=f"default: {TOKEN}, or {TOKEN_FILE}")
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="FOLDER", help="get: where to put it (default: runs)"
    )
    parser.add_argument("--changes", action="store_true", help="mcp: tools may also submit, stop and resume runs")
    common.json(parser)


def run(options: Namespace) -> int:
    """Carries out one verb."""
    return _VERBS[options.verb](connect(options.server, options.token_file), options)


def _submit(server: Server, options: Namespace) -> int:
    if study := _study_path(options):
        return _show_study(server.submit_study(study).status(), options)
    run = server.submit(_config(options))
    return _show_status(run.status(), options)


def _check(server: Server, options: Namespace) -> int:
    if study := _study_path(options):
        answer = server.check_study(study)
        return _tell(answer, options, f"OK, {counted(answer['runs'], 'run')}; {_price(answer['price'])}")
    answer = server.check(_config(options))
    return _tell(answer, options, f"OK, {answer['task']} with {answer['algorithm']}; {_price(answer['price'])}")


def _price(price: dict[str, Any]) -> str:
    amount = "" if price["dollars"] is None else f"about {money(price['dollars'])} on AWS Lambda: "
    begin_s = price["begins_in_s"]
    begins = "" if begin_s is None else f"; begins in {seconds(begin_s)}" if begin_s else "; begins at once"
    ends = "" if price["ends_in_s"] is None else f", ends in {seconds(price['ends_in_s'])}"
    return f"{amount}{price['text']}{begins}{ends}"


def _pool(server: Server, options: Namespace) -> int:
    pool = server.pool()
    lines = [f"{len(pool['busy'])} of {pool['slots']} slots serve tasks"]
    owners = [(row["owner"], f"{row['weight']:g}", row["trains"], row["waits"]) for row in pool["owners"]]
    lines += table(("owner", "weight", "train", "wait"), [tuple(map(str, row)) for row in owners]).splitlines()
    lines += [
        f"{turn['place']}. {turn['run'] or turn['owner']} waits for: {turn['waits_for']}" for turn in pool["queue"]
    ]
    return _tell(pool, options, *lines)


def _runs(server: Server, options: Namespace) -> int:
    runs = server.runs()
    rows = [
        (run["id"], run["status"], run["task"], str(run["round"]), _score(run), money(run["dollars"])) for run in runs
    ]
    lines = table(("run", "status", "task", "round", "return", "bill"), rows).splitlines() if rows else ["no runs yet"]
    return _tell(runs, options, *lines)


def _status(server: Server, options: Namespace) -> int:
    if study := _study(server, options):
        return _show_study(study.status(), options)
    return _show_status(_run(server, options).status(), options)


def _watch(server: Server, options: Namespace) -> int:
    run, before = _run(server, options), ""
    while True:
        status = run.status()
        if (line := _line(status)) != before and not options.json:
            say(line)
        before = line
        if status["status"] in OVER:
            break
        time.sleep(_POLL_S)
    if options.json:
        say_json(status)
    return FINISHED if status["status"] == "finished" else UNFINISHED


def _stop(server: Server, options: Namespace) -> int:
    if study := _study(server, options):
        study.stop()
        return _show_study(study.status(), options)
    run = _run(server, options)
    run.stop()
    return _show_status(run.status(), options)


def _resume(server: Server, options: Namespace) -> int:
    if study := _study(server, options):
        study.resume()
        return _show_study(study.status(), options)
    run_id, *settings = options.settings or [""]
    limits = with_settings({}, settings).get("stop", {})
    run = server.run(_required(run_id))
    run.resume(**limits)
    return _show_status(run.status(), options)


def _get(server: Server, options: Namespace) -> int:
    path = _run(server, options).fetch(options.out)
    return _tell({"folder": str(path)}, options, str(path))


def _keep(server: Server, options: Namespace) -> int:
    run = _run(server, options)
    run.keep(options.verb == "keep")
    return _show_status(run.status(), options)


def _mcp(server: Server, options: Namespace) -> int:
    # The protocol is on standard output. Within a command, other prints go to standard error.
    with redirect_stdout(sys.__stdout__):
        tool_server(server, options.changes).run()
    return FINISHED


def _delete(server: Server, options: Namespace) -> int:
    run = _run(server, options)
    run.delete()
    return _tell({"deleted": run.id}, options, f"deleted {run.id}")


_VERBS: dict[str, Callable[[Server, Namespace], int]] = {
    "submit": _submit, "check": _check, "runs": _runs, "status": _status, "watch": _watch, "stop": _stop,
    "resume": _resume, "get": _get, "pool": _pool, "keep": _keep, "release": _keep, "delete": _delete,
    "mcp": _mcp,
}  # fmt: skip


def _study_path(options: Namespace) -> Path | None:
    """Return the path of the study that the settings name, None if they name a run."""
    path, settings = common.split(options.settings)
    is_study = path is not None and not settings and any(table in read_toml(path) for table in STUDY_TABLES)
    return path if is_study else None


def _study(server: Server, options: Namespace) -> RemoteStudy | None:
    """Return the study that the settings name, None if they name a run."""
    words = options.settings
    return server.study(words[0]) if len(words) == 1 and words[0].startswith("s") and words[0].isalnum() else None


def _show_study(runs: list[dict[str, Any]], options: Namespace) -> int:
    lines = [f"study {runs[0]['study']}", *(f"{run['setting']}: {_line(run)}" for run in runs)]
    return _tell(runs, options, *lines)


def _config(options: Namespace) -> dict[str, Any]:
    path, settings = common.split(options.settings)
    return with_settings({} if path is None else read_toml(path), [*settings])


def _run(server: Server, options: Namespace) -> RemoteRun:
    if len(options.settings) > 1:
        raise UserError(f"{options.verb} takes one run, not {' '.join(options.settings)}")
    return server.run(_required(options.settings[0] if options.settings else ""))


def _required(run: str) -> str:
    if not run.isalnum():
        raise UserError(f"name a run, such as r3f9a1c22b0d4. {program_name()} server runs lists them")
    return run


def _show_status(status: dict[str, Any], options: Namespace) -> int:
    return _tell(status, options, _line(status))


def _line(run: dict[str, Any]) -> str:
    place = f", place {run['place']}: {run['waits_for']}" if run["place"] else ""
    reason = f": {run['reason']}" if run["reason"] else ""
    progress = f", round {run['round']}, return {_score(run)}, {money(run['dollars'])}" if run["round"] else ""
    stops = ", stops after the tasks in flight" if run["stops"] else ""
    return f"{run['id']} {run['status']}{reason}{place}{progress}{stops}"


def _score(run: dict[str, Any]) -> str:
    return "-" if run["score"] is None else figure(run["score"])


def _tell(value: Any, options: Namespace, *lines: str) -> int:
    if options.json:
        say_json(value)
    else:
        say(*lines)
    return FINISHED
