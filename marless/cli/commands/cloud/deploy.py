"""marless cloud deploy: creates or updates the deployment that runs in an AWS account need."""

import re
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections.abc import Callable

from marless.backends import registry
from marless.backends.base import DeployRequest
from marless.cli import arguments as common
from marless.cli.console import confirm
from marless.cloud import resource_options
from marless.coordinator.errors import FINISHED, UserError
from marless.functions.function_specs import DEPLOYED
from marless.functions.resources.settings import Resource
from marless.infra.packaging.containers import ContainerFault
from marless.infra.packaging.plugins import PackageFault
from marless.output import note, say, say_text
from marless.program import program_name
from marless.reports import provenance

EXAMPLES = """examples:
  marless cloud deploy                         shows resources and costs, then asks for confirmation
  marless cloud deploy --tenant team-b --region eu-west-1 --email me@example.com --budget 20
  marless cloud deploy --plugin ./my_tasks --actor-memory 3008
  marless cloud deploy --plugin ./my_judge.py --resource judge=my_judge:grade,slots=4
  marless cloud deploy --dry-run --learner-memory 3008  what that would change
  marless cloud deploy --backend emulated      into an emulated account on this machine, free of charge
  MARLESS_EMULATED_CONCURRENCY=10 marless cloud deploy --backend emulated  ... with the concurrency of a new account

Options that are left out keep their last deployed values, except --plugin, which must be given every time."""

# Lambda's limits (Lambda developer guide, "Lambda quotas").
_MEMORY_MB, _TIMEOUT_S = (128, 10_240), (1, 900)
# API_PutFunctionEventInvokeConfig, MaximumEventAgeInSeconds.
_EVENT_AGE_S = (60, 21_600)
_RETENTION_DAYS = (1, 100_000)
# Options with the parameter that they set, its name in AWS's words, and an example.
_GUARD_RAILS = (
    ("resource-tokens", "ResourceTokens", "NAMES", "resources with a token, /marless/TENANT/NAME", "judge"),
    ("log-retention", "LogRetention", "DAYS", "days that log groups keep events (RetentionInDays)", "30"),
    (
        "permissions-boundary",
        "PermissionsBoundary",
        "ARN",
        "managed policy that bounds the functions' roles (PermissionsBoundary)",
        "arn:aws:iam::123456789012:policy/company-boundary",
    ),
    ("role-path", "RolePath", "PATH", "path of the functions' roles (Path)", "/company/"),
    (
        "kms-key",
        "KmsKey",
        "ARN",
        "customer managed KMS key for bucket, table, queue and log groups",
        "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    ),
    ("subnets", "Subnets", "IDS", "subnets of the functions (VpcConfig, SubnetIds)", "subnet-0a1b,subnet-2c3d"),
    (
        "security-groups",
        "SecurityGroups",
        "IDS",
        "security groups of the functions (VpcConfig, SecurityGroupIds)",
        "sg-0a1b",
    ),
)


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.remote_backend(parser)
    memory, timeout = common.within(*_MEMORY_MB), common.within(*_TIMEOUT_S)
    for role in DEPLOYED:
        parser.add_argument(f"--{role}-memory", type=memory, metavar="MB", help=f"memory of the {role}")
        parser.add_argument(f"--{role}-timeout", type=timeout, metavar="S", help=f"time-out of the {role}")
    parser.add_argument(
        "--concurrency",
        type=common.within(0, 10**6),
        metavar="N",
        help="reserved concurrency of each worker function (0: none)",
    )
    parser.add_argument(
        "--budget",
        type=common.within(0, 10**9),
        metavar="DOLLARS",
        help="monthly budget. An alarm fires when spending is above that pace. With --email, AWS watches the bill",
    )
    parser.add_argument("--email", metavar="ADDRESS", help="recipient of alarms and of the budget's warnings")
    _guard_rails(parser)
    parser.add_argument("--tracing", action=BooleanOptionalAction, help="trace invocations with X-Ray (billed by AWS)")
    _foreign_code(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--dry-run", action="store_true", help="show the changes as a change set and stop")
    instead.add_argument(
        "--print-template",
        action="store_true",
        help="upload the packages and print the template for another pipeline. The stack stays the same",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _foreign_code(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="PLUGIN",
        help="package or module that your tasks or algorithms need, by path or requirement (repeatable)",
    )
    parser.add_argument(
        "--resource",
        type=_resource,
        action="append",
        default=[],
        metavar="NAME=SOURCE",
        help=f"resource that environments ask, such as {resource_options.EXAMPLE} (repeatable)",
    )
    parser.add_argument(
        "--no-resource", action="append", default=[], metavar="NAME", help="remove that resource (repeatable)"
    )


def _guard_rails(parser: ArgumentParser) -> None:
    """Add arguments for the rules of an organization. The empty text, or the path /, removes a value."""
    for name, parameter, metavar, text, example in _GUARD_RAILS:
        parser.add_argument(
            f"--{name}", type=_template_value(parameter, example), metavar=metavar, help=f"{text}, such as {example}"
        )
    parser.add_argument(
        "--event-age",
        type=common.within(*_EVENT_AGE_S),
        metavar="S",
        help="seconds that an asynchronous event may wait (MaximumEventAgeInSeconds)",
    )
    parser.add_argument(
        "--trajectory-retention",
        type=common.within(*_RETENTION_DAYS),
        metavar="DAYS",
        help="days until AWS deletes trajectories that no run has deleted (S3 Lifecycle)",
    )
    parser.add_argument(
        "--tag",
        type=_tag,
        action="append",
        metavar="KEY=VALUE",
        help="tag of the stack and its contents, such as CostCenter=42 (repeatable)",
    )
    parser.add_argument("--service-role", metavar="ARN", help="role that CloudFormation uses (RoleARN)")


def run(options: Namespace) -> int:
    """Show the deployment, ask for confirmation, and deploy."""
    from marless.cloud import deploy_messages
    from marless.cloud.deployments import options_of
    from marless.infra.deployment import DeploymentFault

    parameters = _parameters(options)
    try:
        request = DeployRequest(
            options.tenant,
            options.region,
            parameters,
            options.plugin,
            lambda text: confirm(text, options.yes),
            # The output is the template alone.
            note if options.print_template else say,
            dict(options.tag) if options.tag else None,
            options.service_role,
            {**dict(options.resource), **dict.fromkeys(options.no_resource)},
        )
        if options.dry_run:
            say_text(deploy_messages.changes(registry.remote(options.backend).preview(request)))
            return FINISHED
        if options.print_template:
            say_text(registry.remote(options.backend).template(request))
            return FINISHED
        deployment = registry.remote(options.backend).deploy(request)
    except (ContainerFault, DeploymentFault, PackageFault) as fault:
        raise UserError(str(fault)) from fault
    say_text(deploy_messages.after(deployment))
    where = options_of(options.backend, options.tenant, options.region, usual=registry.DEFAULT)
    say(f"next: {program_name()} train{where}")
    return FINISHED


def _parameters(options: Namespace) -> dict[str, str]:
    if bool(options.subnets) != bool(options.security_groups):
        raise UserError("--subnets and --security-groups go together: Lambda needs both or neither")
    if options.print_template and (options.tag or options.service_role):
        raise UserError("--tag and --service-role do not go with --print-template: no template holds them")
    settings = {
        **{f"{role.capitalize()}Memory": getattr(options, f"{role}_memory") for role in DEPLOYED},
        **{f"{role.capitalize()}Timeout": getattr(options, f"{role}_timeout") for role in DEPLOYED},
        "WorkerConcurrency": options.concurrency,
        "MonthlyBudget": options.budget,
        "AlarmEmail": options.email,
        "EventAge": options.event_age,
        "TrajectoryRetention": options.trajectory_retention,
        **{parameter: getattr(options, name.replace("-", "_")) for name, parameter, *_ in _GUARD_RAILS},
        "Tracing": {True: "Active", False: "Disabled"}.get(options.tracing),
    }
    return {"Code": provenance.code_sha256()} | {
        name: str(value) for name, value in settings.items() if value is not None
    }


def _resource(text: str) -> tuple[str, Resource]:
    try:
        return resource_options.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _tag(text: str) -> tuple[str, str]:
    """AWS's rules for tags (Tagging AWS resources, "Tag naming limits and requirements")."""
    from marless.infra.deployment.stack import TENANT_TAG

    key, separator, value = text.partition("=")
    if (
        not separator
        or not re.fullmatch(r"[\w .:/=+@-]{1,128}", key)
        or not re.fullmatch(r"[\w .:/=+@-]{0,256}", value)
    ):
        raise ArgumentTypeError(f"{text!r} is not a tag such as CostCenter=42")
    if key.lower().startswith("aws:") or key == TENANT_TAG:
        raise ArgumentTypeError(f"{key!r} is reserved")
    return key, value


def _template_value(parameter: str, example: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        from marless.infra.deployment import template

        if not re.fullmatch(template.allowed_pattern(template.text(), parameter), text):
            raise ArgumentTypeError(f"{text!r} is not allowed; give a value such as {example}")
        return text

    return parse
