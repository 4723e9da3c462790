"""marless cloud policy: prints the IAM policy that an identity needs to train in a tenant, or to deploy it."""

from argparse import ArgumentParser, Namespace

from marless.backends import registry
from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED
from marless.output import say_text

EXAMPLES = """examples:
  marless cloud policy trainer --tenant team-b > trainer.json
  marless cloud policy deployer --region eu-west-1"""


def arguments(parser: ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "who",
        choices=("trainer", "deployer"),
        help="trainer may train, watch, stop and read logs, and deployer may also deploy",
    )
    common.remote_backend(parser)


def run(options: Namespace) -> int:
    """Print the policy document for the account of the credentials in use."""
    from marless.cloud.accounts import caller
    from marless.infra.deployment import identity_policy

    cloud = registry.remote(options.backend).cloud(options.region)
    region = cloud.client("sts").meta.region_name
    say_text(identity_policy(options.who, caller(cloud).account, region, options.tenant))
    return FINISHED
