"""marless cloud logs: prints the log lines of deployed functions, oldest first."""

import time
from argparse import ArgumentParser, Namespace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from marless.backends import registry
from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED, UserError
from marless.functions.function_specs import DEPLOYED
from marless.output import OUTPUT, say, say_json, say_text
from marless.runs.run_store import LATEST, RUNS
from marless.signals import Signals

if TYPE_CHECKING:
    from marless.cloud.log_lines import LogLine, Reader
    from marless.infra.aws.clients import Cloud
    from marless.infra.aws.cloudwatch import Logs

_USUAL_S = 3600.0
_POLL_S = 2.0
# As many characters of a request id as tell the invocations of a run apart.
_SHORT = 8
# Fields that a person does not need in every line, because they describe the function or repeat the message.
_HIDDEN = frozenset(
    {
        *("cold_start", "function_name", "function_memory_size", "function_arn", "function_version"),
        *("duration_ms", "billed_ms", "max_memory_used", "exception", "exception_name", "stack_trace", "xray_trace_id"),
    }
)

EXAMPLES = """examples:
  marless cloud logs                                the newest run, last hour
  marless cloud logs first --follow                 print new lines until Ctrl-C
  marless cloud logs --function learner --since 1d  all runs in the deployment of the newest run
  marless cloud logs --function actor --backend aws  all runs of tenant default on AWS"""


_RESOURCE = "resource"
_FUNCTIONS = (*DEPLOYED, _RESOURCE)


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("run", metavar="RUN", nargs="?", help="print only lines of this run (default: latest)")
    parser.add_argument(
        "--function",
        choices=_FUNCTIONS,
        metavar="NAME",
        help=f"print only lines of {', '.join(_FUNCTIONS)}, of all runs if RUN is missing",
    )
    parser.add_argument("--follow", action="store_true", help="wait for new lines and print them")
    parser.add_argument(
        "--since",
        type=common.duration,
        default=_USUAL_S,
        metavar="TIME",
        help="how far to look back: 30s, 10m, 2h, 1d (default: 1h)",
    )
    common.elsewhere(parser)
    common.json(parser)


def run(options: Namespace) -> int:
    """Print the lines. Ctrl-C ends `--follow`."""
    from marless.cloud.log_lines import Reader
    from marless.infra.aws.cloudwatch import LATE_S, Logs

    cloud, stack, run = _source(options)
    functions = [options.function] if options.function else _FUNCTIONS
    logs = Logs(cloud, {name: f"/marless/{stack}/{name}" for name in functions}, optional=(_RESOURCE,))
    reader, since = Reader(run), time.time() - options.since
    with Signals() as signals:
        any_lines = _print_new_lines(logs, reader, since, options.json)
        while options.follow and not signals.received and not OUTPUT.unread:
            time.sleep(_POLL_S)
            since = max(since, time.time() - LATE_S)
            any_lines |= _print_new_lines(logs, reader, since, options.json)
    if not any_lines and not options.json:
        which = f" of {run} (successful invocations of workers name no run; see --function)" if run else ""
        say(f"no log lines{which} in that time; --since 1d looks further back")
    return FINISHED


def _source(options: Namespace) -> "tuple[Cloud, str, str | None]":
    from marless.infra.deployment import stack_name

    every = options.run is None and options.function is not None
    if options.backend and (every or not RUNS.holds(options.run or LATEST)):
        return registry.remote(options.backend).cloud(options.region), stack_name(options.tenant), options.run
    folder = RUNS.find(options.run or LATEST)
    identity = folder.identity()
    if identity.deployment_ref is None:
        raise UserError(f"{folder.name} is a run on this machine; only functions in the cloud write logs")
    cloud, stack = (
        registry.remote(identity.backend).cloud(identity.deployment_ref.region),
        identity.deployment_ref.stack,
    )
    return cloud, stack, None if every else identity.run


def _print_new_lines(logs: "Logs", reader: "Reader", since: float, as_json: bool) -> bool:
    lines = reader.read(logs.since(since))
    for line in lines:
        if as_json:
            say_json(_document(line))
        else:
            say_text(_text(line))
    return bool(lines)


def _text(line: "LogLine") -> str:
    at = datetime.fromtimestamp(line.at).strftime("%m-%d %H:%M:%S.%f")[:-3]
    fields = {"task" if "/" in line.correlation_id else "run": line.correlation_id, **line.fields}
    fields_text = "".join(f"  {name}={value}" for name, value in fields.items() if value != "" and name not in _HIDDEN)
    text = f"{line.message}{fields_text}\n{line.fields.get('exception', '')}".rstrip().replace("\n", "\n" + " " * 4)
    return f"{at}  {line.function:<11}  {line.request_id[:_SHORT]:<{_SHORT}}  {line.level:<7}  {text}".rstrip()


def _document(line: "LogLine") -> dict[str, Any]:
    at = datetime.fromtimestamp(line.at).astimezone().isoformat(timespec="milliseconds")
    head = {"at": at, "function": line.function, "request_id": line.request_id, "correlation_id": line.correlation_id}
    return {**head, "level": line.level, "message": line.message, "fields": line.fields}
