"""Add a team to the zoo, or train stored teams again.

    python -m marless_zoo add NAME SETTING ...
    python -m marless_zoo reproduce [NAME ...]

`add` trains like `marless train SETTING ...`, and stores the team. It works in a source tree. Its run is runs/NAME in
the current folder. A run that has finished is stored at once.

`reproduce` trains again, and compares the hashes of all weights. It adds this processor to the record of each team with
an equal hash.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter

from marless.coordinator.errors import USER_ERROR, UserError
from marless_zoo import training


def main() -> int:
    """Run the command line. Returns 1 if a hash differs, and 2 for a user's mistake."""
    parser = ArgumentParser(
        prog="python -m marless_zoo", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add", help="train and store a team")
    add.add_argument("name", help="lower-case letters, digits and -")
    add.add_argument("settings", nargs="+", metavar="SETTING", help="what follows `marless train`")
    reproduce = commands.add_parser("reproduce", help="train stored teams again")
    reproduce.add_argument("names", nargs="*", metavar="NAME", help="by default, all teams")
    options = parser.parse_args()
    try:
        if options.command == "add":
            team = training.add(options.name, options.settings)
            print(f"{team.name}: {team.size:,} bytes, return {team.returns.mean:.2f}, weights {team.weights_sha256}")
            return 0
        return training.reproduce(options.names)
    except UserError as error:
        print(f"marless_zoo: {error}", file=sys.stderr)
        return USER_ERROR


if __name__ == "__main__":
    sys.exit(main())
