"""The package's extras: what each is for, and whether it is installed."""

from importlib.util import find_spec
from pathlib import Path

from coordinator.errors import UserError
from functions.environments.pettingzoo.factory import TASK_PACKAGES
from functions.environments.starcraft.smac_scenarios import PACKAGES

# A module of everything that each brings; one of several does where there is a bar between them.
EXTRAS = {
    "learner": ("stages that need automatic differentiation", ("torch",)),
    "tasks": ("PettingZoo environments", ("pettingzoo", "mpe2")),
    "report": ("curve.png and replays", ("matplotlib",)),
    "live": ("marless replay --live", ("matplotlib", "pygame")),
    "search": ("settings of a study, picked by Optuna", ("optuna",)),
    "tensorboard": ("log.to=tensorboard", ("tensorboardX",)),
    "wandb": ("log.to=wandb", ("wandb",)),
    "mlflow": ("log.to=mlflow", ("mlflow",)),
    "export": ("policies as ONNX: marless export --to onnx", ("onnx",)),
    "datasets": ("episodes as Parquet: marless export --to parquet", ("pyarrow",)),
    "aws": ("runs and deployments on AWS", ("botocore", "aws_lambda_powertools")),
    "emulated": ("AWS, emulated on this machine", ("botocore", "aws_lambda_powertools", "aws_emulator", "moto")),
    "lbf": ("level-based foraging", ("lbforaging",)),
    "rware": ("robots in a warehouse", ("rware",)),
    "overcooked": ("cooks in a kitchen", ("overcooked_ai_py",)),
    "mamujoco": ("Multi-Agent MuJoCo", ("gymnasium_robotics", "mujoco")),
    "magent2": ("many agents on a grid", ("magent2",)),
    "vmas": ("VMAS's robots", ("vmas",)),
    "hanabi": ("Hanabi", ("pettingzoo", "pyspiel")),
    "meltingpot": ("Melting Pot's substrates", ("meltingpot", "pettingzoo")),
    "smax": ("SMAC's battles without StarCraft", ("jax", "jaxmarl")),
    "smac": ("StarCraft tasks; see pyproject.toml", ("smac|smacv2",)),
}
# Where the extra is not enough: packages that are not on PyPI, and of which one does, or that ask for too much.
# What is on no package index: in the source tree, and as a wheel.
_BESIDE = {"emulated": ("-e ./emulator ", "marless_aws_emulator-*.whl ")}
_COMMANDS = {"smac": " or ".join(PACKAGES.values()), "overcooked": f"pip install {TASK_PACKAGES['overcooked_ai_py']}"}


def is_installed(extra: str) -> bool:
    """Whether everything of the extra is here."""
    return all(any(is_importable(name) for name in either.split("|")) for either in EXTRAS[extra][1])


def is_importable(name: str) -> bool:
    """Whether there is a package; a folder of its name without a module, such as wandb's logs, is none."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None


def install(extra: str) -> str:
    """The command that installs it."""
    if extra in _COMMANDS:
        return _COMMANDS[extra]
    folder, wheel = _BESIDE.get(extra, ("", ""))
    in_source_tree = Path(__file__).resolve().parents[1].joinpath("pyproject.toml").is_file()
    return (
        f".venv/bin/pip install {folder}-e '.[{extra}]'" if in_source_tree else f"pip install {wheel}'marless[{extra}]'"
    )


def lacking(error: Exception) -> str:
    """Which extra brings the module that was not found, in one line; '' for another error."""
    name = (getattr(error, "name", "") or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = next((extra for extra, (_, modules) in EXTRAS.items() if name in modules), "")
    return extra and f"{EXTRAS[extra][0]} need packages that are not installed: {install(extra)}"


def require(extra: str, what: str) -> None:
    """Raises `UserError` when `what` cannot be for want of the extra."""
    if not is_installed(extra):
        raise UserError(f"{what} needs packages that are not installed: {install(extra)}")
