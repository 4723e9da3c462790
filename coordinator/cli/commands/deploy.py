"""marless deploy: makes what runs in an AWS account need; doing it again brings it up to date."""

from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable

from coordinator.cli import arguments as common
from coordinator.cli.confirm import confirm
from coordinator.cloud import deploy_messages, deployments
from coordinator.cloud.accounts import caller, region_of
from coordinator.cloud.deployments import account_concurrency
from coordinator.cloud.stack_parameters import renewed
from coordinator.errors import FINISHED, UserError
from coordinator.reports import provenance
from infra.aws.clients import Cloud
from infra.deployment import ROLES, Deployment, DeploymentFault, deploy, describe, stack_name
from infra.packaging import containers
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
# An account keeps so much concurrency for functions that reserve none (Lambda developer guide, "Configuring reserved
# concurrency for a function").
_UNRESERVED = 100
_WORKERS = 3


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
        made = _emulated(options, given) if options.backend == "emulated" else _aws(options, given)
    except (ContainerFault, DeploymentFault, PackageFault) as fault:
        raise UserError(str(fault)) from fault
    print(deploy_messages.after(made))
    print(f"next: marless train{deployments.spelled(options.backend, options.tenant, options.region, usual='local')}")
    return FINISHED


def _emulated(options: Namespace, given: dict[str, str]) -> Deployment:
    if options.plugin:
        raise UserError("--plugin is for AWS; functions of the emulated account import what this program can")
    from coordinator.cloud.emulated import begun

    cloud = begun(options.region).cloud
    return deploy(cloud, options.tenant, renewed(cloud, options.tenant, given), say=_say)


def _aws(options: Namespace, given: dict[str, str]) -> Deployment:
    """All that can be known to be wrong is looked for before anything is made."""
    region = region_of(options.region)
    cloud, stack = Cloud(region), stack_name(options.tenant)
    who = caller(cloud)
    engine = containers.engine()
    before, free = describe(cloud, stack), account_concurrency(cloud)
    parameters = renewed(cloud, options.tenant, given)
    _check_concurrency(int(parameters.get("WorkerConcurrency", 0)), before, free)
    print(deploy_messages.before(who, region, stack, before is not None, parameters, free))
    confirm("renew it?" if before else "make it?", options.yes)
    from coordinator.cloud.packing import packed

    with packed(options.plugin, engine, _say) as packages:
        _say("the first time this takes some minutes" if before is None else "this takes some minutes")
        return deploy(cloud, options.tenant, parameters, packages, say=_say)


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


def _check_concurrency(wanted: int, before: Deployment | None, free: int) -> None:
    """Raises `UserError` when Lambda would refuse to reserve so much."""
    held = _WORKERS * (before.concurrency or 0) if before else 0
    most = max(0, (free + held - _UNRESERVED) // _WORKERS)
    if wanted > most:
        raise UserError(
            f"--concurrency {wanted} reserves {_WORKERS * wanted:,} functions and leaves less than {_UNRESERVED} to the"
            f" others of this account; the most is {most}, or ask for more under Service Quotas, AWS Lambda"
        )


def _within(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least:,} to {most:,}")
        return int(text)

    return number


def _say(line: str) -> None:
    print(line, flush=True)
