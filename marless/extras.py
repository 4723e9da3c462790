"""The package's extras: their purposes, and whether they are installed."""

import shlex
from importlib.util import find_spec
from pathlib import Path

from marless.coordinator.errors import UserError
from marless.functions.environments.starcraft.smac_scenarios import PACKAGES
from marless.program import pip_name

# The purpose of each extra, and a module of every package that it brings. With a bar, one of several modules suffices.
EXTRAS = {
    "tasks": ("PettingZoo environments", ("pettingzoo", "mpe2")),
    "report": ("learning curves, reports and replays", ("matplotlib", "PIL")),
    "notebook": ("work in notebooks", ("ipykernel", "matplotlib", "PIL", "nbclient", "pandas")),
    "live": ("replays in a window", ("matplotlib", "PIL", "pygame")),
    "learner": ("learning with torch, on a GPU too", ("torch",)),
    "language": ("agents that speak, by language models", ("marless_language", "torch", "gguf", "tokenizers")),
    "search": ("settings of a study, picked by Optuna", ("optuna",)),
    "completion": ("the tab key in bash and zsh", ("argcomplete",)),
    "tensorboard": ("logs for TensorBoard", ("tensorboardX",)),
    "wandb": ("logs for Weights & Biases", ("wandb",)),
    "mlflow": ("logs for MLflow", ("mlflow", "alembic", "sqlalchemy", "sqlparse")),
    "export": ("policies as ONNX", ("onnx",)),
    "datasets": ("episodes as Parquet", ("pyarrow",)),
    "networks": ("convolutions, modules of torch", ("torch", "onnx", "onnxscript", "onnxruntime")),
    "aws": ("runs and deployments on AWS", ("botocore", "aws_lambda_powertools")),
    "cloud": ("upkeep of a deployment on AWS", ("botocore", "aws_lambda_powertools", "marless_cloud")),
    "emulated": ("AWS, emulated on this machine", ("botocore", "aws_lambda_powertools", "aws_emulator", "moto")),
    "cluster": ("workers of other machines", ("marless_cluster",)),
    "server": ("a queue of runs for several people", ("marless_server", "starlette", "uvicorn")),
    "zoo": ("trained teams to look at", ("matplotlib", "PIL", "marless_zoo")),
    "ray": ("workers that Ray places on a cluster", ("marless_cluster", "ray")),
    "classic": ("PettingZoo's board and card games", ("pettingzoo", "chess", "rlcard", "pygame", "pyspiel", "shimmy")),
    "sisl": ("PettingZoo's SISL", ("pettingzoo", "Box2D", "pygame", "pymunk")),
    "butterfly": ("PettingZoo's Butterfly", ("pettingzoo", "pygame", "pymunk")),
    "lbf": ("lbforaging, to compare with lbf/", ("marless_tasks", "lbforaging")),
    "rware": ("rware, to compare with rware/", ("marless_tasks", "rware")),
    "overcooked": ("overcooked-ai, to compare with overcooked/", ("marless_tasks", "overcooked_ai_py", "gym")),
    "channel": ("a turbulent channel flow", ("marless_tasks",)),
    "mamujoco": ("Multi-Agent MuJoCo", ("marless_tasks", "gymnasium_robotics", "mujoco")),
    "magent2": ("many agents on a grid", ("marless_tasks", "magent2")),
    "vmas": ("VMAS's robots", ("marless_tasks", "vmas")),
    "hanabi": ("Hanabi", ("marless_tasks", "pettingzoo", "pyspiel")),
    "meltingpot": ("Melting Pot's substrates", ("marless_tasks", "meltingpot", "pettingzoo")),
    "smac": ("SMAC and SMACv2, beside StarCraft II", ("smac|smacv2",)),
    "docs": ("building these pages as a site", ("mkdocs", "material", "mkdocstrings")),
    "dev": (
        "the tests and checks of this repository",
        ("hypothesis", "importlinter", "mypy", "pytest", "ruff", "vulture"),
    ),
}
# Packages outside any package index come first: a folder of the source tree, or a wheel that was built from it.
_BESIDE = {"emulated": ("packages/aws-emulator", "marless_aws_emulator-*.whl")} | {
    extra: (f"packages/{module.replace('_', '-')}", f"{module}-*.whl")
    for extra, (_, modules) in EXTRAS.items()
    for module in modules
    if module.startswith("marless_")
}
# Extras that need more packages. These are missing on PyPI, and one of them suffices.
_COMMANDS = {"smac": " or ".join(PACKAGES.values())}
_TREE = Path(__file__).resolve().parents[1]


def is_installed(extra: str) -> bool:
    """Return whether all packages of the extra are here."""
    return all(any(is_importable(name) for name in either.split("|")) for either in EXTRAS[extra][1])


def is_importable(name: str) -> bool:
    """Return whether there is a package. A folder of its name without a module, such as wandb's logs, is none."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None


def install(extra: str) -> str:
    """The command that installs it into this environment, from the current folder."""
    if extra in _COMMANDS:
        return _COMMANDS[extra].replace("pip install", f"{pip_name()} install")
    folder, wheel = _BESIDE.get(extra, ("", ""))
    if not _TREE.joinpath("pyproject.toml").is_file():
        return " ".join(filter(None, [f"{pip_name()} install", wheel, f"'marless[{extra}]'"]))
    tree = "." if Path.cwd() == _TREE else str(_TREE)
    parts = [f"{tree}/{folder}"] if folder else []
    return f"{pip_name()} install " + " ".join(f"-e {shlex.quote(part)}" for part in [*parts, f"{tree}[{extra}]"])


def takes_more(extra: str) -> bool:
    """Return whether its command differs from other extras' commands by more than its name."""
    return extra in _COMMANDS or extra in _BESIDE


def lacking(error: Exception) -> str:
    """Return a line that names the extra with the missing module, or '' for another error."""
    name = (getattr(error, "name", "") or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = next((extra for extra, (_, modules) in EXTRAS.items() if name in modules), "")
    return extra and f"the package {name} is not installed; the extra {extra} brings it: {install(extra)}"


def require(extra: str, what: str) -> None:
    """Raise `UserError` if `what` needs the extra and it is not installed."""
    if not is_installed(extra):
        raise UserError(f"{what} needs packages that are not installed: {install(extra)}")
