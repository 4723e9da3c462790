"""marless deploy: makes what runs in an AWS account need; doing it again brings it up to date."""

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable

from coordinator.backends import registry
from coordinator.backends.base import DeployRequest
from coordinator.cli import arguments as common
from coordinator.cli.console import confirm
from coordinator.cloud import deploy_messages
from coordinator.cloud.deployments import options_of
from coordinator.errors import FINISHED, UserError
from coordinator.reports import provenance
from infra.deployment import ROLES, DeploymentFault
from infra.packaging.containers import ContainerFault
from infra.packaging.plugins import PackageFault

EXAMPLES = """examples:
  marless deploy                               says what it would make and what that costs, and asks
  marless deploy --tenant team-b --region eu-west-1 --email me@example.com --budget 20
  marless deploy --plugin ./my_tasks --actor-memory 3008
  marless deploy --backend emulated            the same on this machine, for nothing

What is not said stays as it was deployed last, but for plug-ins, which are named every time."""

# What Lambda takes (Lambda developer guide, "Lambda quotas").
_MEMORY_MB, _TIMEOUT_S = (128, 10_240), (1, 900)


def arguments(parser: ArgumentParser) -> None:
    """What the command takes."""
    common.remote_backend(parser)
    for role in ROLES:
        parser.add_argument(f"--{role}-memory", type=_within(*_MEMORY_MB), metavar="MB", help=f"memory of the {role}")
        parser.add_argument(f"--{role}-timeout", type=_within(*_TIMEOUT_S), metavar="S", help="its longest invocation")
    parser.add_argument(
        "--concurrency", type=_within(0, 10**6), metavar="N", help="reserve N of each kind of worker; 0: none"
    )
    parser.add_argument(
        "--budget", type=_within(0, 10**9), metavar="DOLLARS", help="a month; an alarm goes off above that pace"
    )
    parser.add_argument("--email", metavar="ADDRESS", help="where alarms are sent")
    parser.add_argument("--tracing", action=BooleanOptionalAction, help="X-Ray traces invocations, which it bills")
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="PLUGIN",
        help="a package or module, by path or requirement, that your tasks or algorithms need",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(options: Namespace) -> int:
    """Says what it would do, asks, and does it."""
    given = _parameters(options)
    try:
        request = DeployRequest(
            options.tenant, options.region, given, options.plugin, lambda text: confirm(text, options.yes), _say
        )
        made = registry.remote(options.backend).deploy(request)
    except (ContainerFault, DeploymentFault, PackageFault) as fault:
        raise UserError(str(fault)) from fault
    print(deploy_messages.after(made))
    print(f"next: marless train{options_of(options.backend, options.tenant, options.region, usual=registry.DEFAULT)}")
    return FINISHED


def _parameters(options: Namespace) -> dict[str, str]:
    """The template's parameters that the user set, and what this program is."""
    said = {
        **{f"{role.capitalize()}Memory": getattr(options, f"{role}_memory") for role in ROLES},
        **{f"{role.capitalize()}Timeout": getattr(options, f"{role}_timeout") for role in ROLES},
        "WorkerConcurrency": options.concurrency,
        "MonthlyBudget": options.budget,
        "AlarmEmail": options.email,
        "Tracing": {True: "Active", False: "Disabled"}.get(options.tracing),
    }
    return {"Code": provenance.code_sha256()} | {name: str(value) for name, value in said.items() if value is not None}


def _within(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least:,} to {most:,}")
        return int(text)

    return number


def _say(line: str) -> None:
    print(line, flush=True)
