"""marless cloud doctor: lists the deployments of a tenant, and finds outdated and changed parts."""

from argparse import ArgumentParser, Namespace

from marless.backends import registry
from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED, UNFINISHED
from marless.output import say, say_text
from marless.reports.text import table

EXAMPLES = """examples:
  marless cloud doctor
  marless cloud doctor --tenant team-b --backend emulated

The exit code is 1 if something is out of date or was changed by hand."""
# As many characters of a hash as tell programs apart.
_SHORT = 12


def arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments."""
    common.remote_backend(parser)


def run(options: Namespace) -> int:
    """Print a row for each deployment, and a line for each fault."""
    from marless.cloud.deployments import deploy_command, require_deployment
    from marless.reports import provenance
    from marless_cloud.deployments_made import faults, made_deployments

    backend = registry.remote(options.backend)
    cloud = backend.cloud(options.region)
    deployment = require_deployment(backend, cloud, options.tenant, options.region)
    code = provenance.code_sha256()
    rows = [
        (
            version.version,
            version.time[:16].replace("T", " "),
            version.code[:_SHORT],
            "now" if version.is_present else "earlier",
        )
        for version in made_deployments(cloud, deployment)
    ]
    say_text(table(("version", "deployed (UTC)", "program", ""), rows))
    lines = [*faults(cloud, deployment)]
    if deployment.code != code:
        renew = deploy_command(options.backend, options.tenant, options.region)
        lines.append(f"this machine has another program, {code[:_SHORT]}. To deploy it: {renew}")
    say("", *(lines or ["nothing is out of date, and nothing was changed by hand"]))
    return UNFINISHED if lines else FINISHED
