"""The package's extras: what each is for, and whether it is installed."""

from importlib.util import find_spec

from coordinator.cli.errors import UserError

# A module of everything that each brings.
EXTRAS = {
    "learner": ("stages that need automatic differentiation", ("torch",)),
    "tasks": ("PettingZoo environments", ("pettingzoo", "mpe2")),
    "report": ("curve.png", ("matplotlib",)),
    "aws": ("what deployed functions need; they bring it along", ("aws_lambda_powertools",)),
    "emulated": ("AWS, emulated on this machine", ("moto", "awslambdaric", "samtranslator", "aws_lambda_powertools")),
    "smac": ("StarCraft tasks; see pyproject.toml", ("smacv2",)),
}


def installed(extra: str) -> bool:
    """Whether everything of the extra is here."""
    return all(find_spec(module) is not None for module in EXTRAS[extra][1])


def install(extra: str) -> str:
    """The command that installs it."""
    return f".venv/bin/pip install -e '.[{extra}]'"


def require(extra: str, what: str) -> None:
    """Raises `UserError` when `what` cannot be for want of the extra."""
    if not installed(extra):
        raise UserError(f"{what} needs packages that are not installed: {install(extra)}")
