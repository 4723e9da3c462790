"""marless cloud teardown: deletes a tenant's deployment and all its runs, and checks that nothing is left."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from marless.backends import registry
from marless.cli import arguments as common
from marless.cli.console import confirm
from marless.coordinator.errors import FINISHED, UNFINISHED, UserError
from marless.output import say
from marless.program import program_name
from marless.reports.text import counted
from marless.runs.folder import RunFolder
from marless.runs.run_store import RUNS

if TYPE_CHECKING:
    from marless.infra.aws.clients import Cloud
    from marless.infra.deployment import Deployment

_NAMED = 5

EXAMPLES = """examples:
  marless cloud teardown
  marless cloud teardown --backend emulated --yes  also ends the emulated account when it is empty"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    common.remote_backend(parser)
    parser.add_argument("--force", action="store_true", help="delete even while runs are in progress")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def run(options: Namespace) -> int:
    """List the resources, ask for confirmation, and delete them. Returns 1 if some are left."""
    place = registry.remote(options.backend)
    return place.teardown(options.tenant, options.region, lambda cloud, where: _remove(cloud, options, where))


def _remove(cloud: "Cloud", options: Namespace, where: str) -> int:
    from marless.infra.deployment import DeploymentFault, describe, stack_name, teardown

    if (deployment := describe(cloud, stack_name(options.tenant))) is not None:
        _warn(deployment, cloud, where, options.force)
        confirm("delete all of it?", options.yes)
    deletions: list[str] = []

    def report(line: str) -> None:
        deletions.append(line)
        say(line)

    try:
        # Also without a complete stack: a failed or deleted stack may have left resources.
        remaining = teardown(cloud, options.tenant, report)
    except DeploymentFault as fault:
        raise UserError(str(fault)) from fault
    if remaining:
        say("these resources are left and must be deleted by hand:", *(f"  {line}" for line in remaining))
        return UNFINISHED
    if not deletions:
        raise UserError(f"tenant {options.tenant} has no deployment in {where}")
    say(f"nothing of tenant {options.tenant} is left in {where}")
    return FINISHED


def _warn(deployment: "Deployment", cloud: "Cloud", where: str, force: bool) -> None:
    from marless.infra.aws.detached_ports import Deployed
    from marless.infra.aws.function_settings import Settings
    from marless.infra.aws.s3 import tenant_runs

    settings = Settings(deployment.bucket, deployment.table, deployment.tenant)
    live = [name for name, _ in Deployed(settings, cloud).live.items("")]
    live += [folder.name for folder in RUNS.folders() if _driven_in(folder, deployment)]
    if live and not force:
        raise UserError(
            f"{_names_text(live)} {'is' if len(live) == 1 else 'are'} in progress; stop it first"
            f" ({program_name()} stop {live[0]}), or pass --force"
        )
    runs = tenant_runs(cloud, settings)
    say(f"deletes stack {deployment.stack} in {where}: functions, logs, table, bucket")
    say(f"and {counted(len(runs), 'run')} with all data{f': {_names_text(runs)}' if runs else ''}")
    say("local folders under runs/ are kept")


def _driven_in(folder: RunFolder, deployment: "Deployment") -> bool:
    if not folder.driven():
        return False
    try:
        deployment_ref = folder.identity().deployment_ref
    except UserError:
        return False
    return deployment_ref is not None and deployment_ref.bucket == deployment.bucket


def _names_text(runs: list[str]) -> str:
    more = len(runs) - _NAMED
    return ", ".join(runs[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")
