"""The program that made a run, and all other origins of its bytes: interpreter, numpy, processor, GPU, environment."""

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from marless.coordinator.config.schema import RunConfig
from marless.functions import kernel_variables
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.environments.base import EnvTask
from marless.functions.environments.task_names import ENVIRONMENTS, FAMILIES, prefix_of
from marless.functions.plug_in_registry import is_reference, plug_ins
from marless.functions.resources.settings import Resource
from marless.functions.text import source_code
from marless.program import cache_folder
from marless.reports import atomic_files, gpus
from marless.reports.user_code.user_modules import code_of, hash_of_files

# Where git knows the program's files, and below which folders Python finds them: three are links in a checkout.
PACKAGES = ("functions", "coordinator", "infra", "marless")
_FOLDERS = (*(f"marless/{name}" for name in PACKAGES[:3]), "marless")
# The parts of them that weights, decisions and bills follow from. Command lines, pages and exports are not among them.
COMPUTING = (*_FOLDERS[:3], *(f"marless/{room}" for room in ("backends", "cloud", "runs", "studies")))
ROOT = Path(__file__).resolve().parents[2]

# A change of this rule changes the hash, too.
_RULE = Path(source_code.__file__)
# Lines of /proc/cpuinfo that select matrix kernels. Other features come and go with the kernel.
_PROCESSOR = ("vendor_id", "model name", "CPU implementer", "CPU part")
_FEATURES = ("flags", "Features")
# Prefixes of the module in a task's name.
_KINDS_OF_MODULES = ("pettingzoo", "text")
_SHA256 = re.compile("[0-9a-f]{64}")
_VECTORS = ("avx", "sse", "ssse", "fma", "f16c", "amx", "asimd", "sve")


class EnvironmentFingerprint(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The origins of a run's bytes besides its program and configuration.

    `environment` and `algorithm` are names and hashes of the packages or modules of plug-ins and PettingZoo tasks.
    `resources` has hashes of the functions that answer, by the resource. `torch` is its version here, for runs that
    compute with it. `gpu` is the GPU, if a run uses one.
    """

    python: str
    numpy: str
    machine: str
    environment: str | None
    algorithm: str | None = None
    torch: str | None = None
    gpu: str | None = None
    resources: dict[str, str] = {}


class CodeChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change of a run's code while the run stood still.

    `part` is a key of `parts`, or another name of code. `before` and `after` are its values, mostly hashes. `round`
    counts the rounds that finished before.
    """

    part: str
    before: str | None
    after: str | None
    round: int = 0

    def __str__(self) -> str:
        return f"{self.part} was {_short(self.before)} and is {_short(self.after)}"

    @property
    def text(self) -> str:
        """The change as reports name it."""
        return f"continued with changed code from round {self.round + 1}: {self}"


@cache
def code_sha256(root: Path = ROOT, packages: tuple[str, ...] = COMPUTING) -> str:
    """Return the hash of a program: of the files of these packages, names included, without comments and docstrings.

    It is computed once: a process runs the code that it loaded, even after later edits. The user's cache keeps it for
    these very files.
    """
    files = _sources(root, packages)
    source = hash_of_files(root, files) + hash_of_files(_RULE.parent, [_RULE])
    name = hashlib.sha256(" ".join([str(root), *packages]).encode(errors="surrogateescape")).hexdigest()
    cache_file = cache_folder() / f"code-{name[:16]}"
    with suppress(OSError, ValueError):
        source_before, code = cache_file.read_text("ascii").split()
        if source_before == source and _SHA256.fullmatch(code):
            return code
    digest = hashlib.sha256()
    for path in files:
        part = source_code.computing_part(path.name, path.read_bytes())
        digest.update(f"{path.relative_to(root)}\0{len(part)}\0".encode() + part)
    atomic_files.cache(cache_file, f"{source} {digest.hexdigest()}\n".encode())
    return digest.hexdigest()


@cache
def source_sha256() -> str:
    """Return the hash of all source files of this program, as they are."""
    return hash_of_files(ROOT, _sources(ROOT, _FOLDERS))


def _sources(root: Path, packages: Iterable[str]) -> list[Path]:
    files = (path for package in packages for path in sorted((root / package).rglob("*")))
    return [path for path in dict.fromkeys(files) if path.suffix in source_code.SUFFIXES]


def environment_fingerprint(
    task: EnvTask,
    algorithm: str,
    engine: str = "numpy",
    device: str = "cpu",
    resources: Mapping[str, Resource] = MappingProxyType({}),
) -> EnvironmentFingerprint:
    """The fingerprint of a run of `task` with `algorithm`, the engine and device, and the resources that this process
    would start."""
    return EnvironmentFingerprint(
        python=platform.python_version(),
        numpy=version("numpy"),
        machine=machine(),
        environment=code_of(_environment(task)),
        algorithm=code_of(_algorithm(algorithm)),
        torch=_version_of("torch") if engine == "torch" else None,
        gpu=gpus.identity() if device == "cuda" else None,
        resources={name: code for name, resource in resources.items() if (code := code_of(resource.serve))},
    )


def modules_of(config: RunConfig) -> list[str]:
    """Return the modules that a configuration names, as ``package.module:name``: the modules of its environment, its
    algorithm and the functions that answer."""
    modules = [_environment(config.task), _algorithm(config.algorithm.name)]
    return [module for module in (*modules, *(each.serve for each in config.resources.values())) if module]


def program_parts() -> dict[str, str]:
    """Return the values of the program and of the libraries that compute, by name."""
    return {"program": code_sha256(), "python": platform.python_version(), "numpy": version("numpy")}


def fingerprint_of(config: RunConfig) -> EnvironmentFingerprint:
    """The fingerprint of a run with this configuration that this process would start."""
    algorithm = config.algorithm
    return environment_fingerprint(
        config.task, algorithm.name, algorithm.engine, algorithm.device, resources=config.resources
    )


def parts(program: str, fingerprint: EnvironmentFingerprint) -> dict[str, str | None]:
    """Return the code and the machine of a run by name: its bytes depend on them and on its configuration.

    `program` is a `code_sha256`.
    """
    fields: dict[str, Any] = msgspec.to_builtins(fingerprint)
    codes = fields.pop("resources")
    return {"program": program, **fields, **{f"resources.{name}": code for name, code in codes.items()}}


def parts_of(config: RunConfig) -> dict[str, str | None]:
    """Return the parts of a run with this configuration that this process would start."""
    return parts(code_sha256(), fingerprint_of(config))


def changes(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[CodeChange]:
    """Return the parts that differ."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return [CodeChange(part=name, before=before.get(name), after=now.get(name)) for name in names]


def _short(value: str | None) -> str:
    return value[:12] if value is not None and _SHA256.fullmatch(value) else str(value)


def libraries() -> str:
    """The interpreter and the libraries that compute, with their versions, as far as they are installed."""
    versions = [f"{name} {version_}" for name in ("numpy", "torch") if (version_ := _version_of(name))]
    return ", ".join([f"Python {platform.python_version()}", *versions])


def commit(root: Path = ROOT) -> str | None:
    """Return the commit that is checked out, with `+` if the program differs from it, or None.

    Other files, such as results, do not count.
    """
    head, _, top = (_git(root, "rev-parse", "HEAD", "--show-toplevel") or "").partition("\n")
    if top != str(root):
        return None
    return head + ("+" if _git(root, "status", "--porcelain", "--", *PACKAGES) else "")


def written_by(root: Path = ROOT) -> str:
    """Return a sentence that names the program of a table: its commit, or its version outside a checkout."""
    if (commit_ := commit(root)) is None:
        return f"Written by marless {version('marless')}, outside a git checkout, so its commit is not known."
    suffix = ", changed since" if commit_.endswith("+") else ""
    return f"Written by commit {commit_[:7]}{suffix}."


def _version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> str:
    """Return the processor and variables that select matrix kernels: another kernel gives other last bits."""
    variables = [f"{name}={os.environ[name]}" for name in kernel_variables.VARIABLES if name in os.environ]
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        return " ".join([platform.system(), platform.machine(), platform.processor(), *variables])
    lines = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}
    features = sorted(word for name in _FEATURES for word in lines.get(name, "").split() if word.startswith(_VECTORS))
    chosen_by = [*(lines.get(name, "") for name in _PROCESSOR), *features, *variables]
    digest = hashlib.sha256(" ".join(chosen_by).encode())
    return f"{platform.system()} {platform.machine()} {lines.get('model name', '')} {digest.hexdigest()[:12]}"


def _environment(task: EnvTask) -> str:
    kind, _, module = task.name.partition(":")
    if kind in _KINDS_OF_MODULES:
        return module
    return _plug_in(ENVIRONMENTS.group, task.name) or _plug_in(FAMILIES.group, prefix_of(task.name))


def _algorithm(name: str) -> str:
    return "" if name in ALGORITHMS.built_in else _plug_in(ALGORITHMS.group, name)


def _plug_in(group: str, name: str) -> str:
    return next((offer.module for offer in plug_ins(group).get(name, ())), name if is_reference(name) else "")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, encoding="utf-8", errors="replace", timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
