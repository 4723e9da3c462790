"""Packages that a run needs on this machine: asked for before there is a folder, let alone a bill."""

import os
import shlex
import shutil
from collections.abc import Mapping

from marless import extras
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.errors import UserError
from marless.functions.algorithms.registry import ALGORITHMS
from marless.functions.algorithms.specification import LAYERED, AlgorithmConfig
from marless.functions.errors import MissingExtra
from marless.functions.function_specs import DEPLOYED
from marless.functions.named_code import refuse_standard
from marless.functions.resources.settings import Resource
from marless.loggers import registry as loggers
from marless.reports import gpus
from marless.reports.user_code.user_modules import function_fault

# Debian keeps engines in these folders, which some accounts lack in their path.
_GAMES = os.pathsep.join(["/usr/games", "/usr/local/games"])


def require_packages(config: RunConfig, functions_here: bool = True) -> None:
    """Raise `UserError` unless loggers are known and installed, and with `functions_here` also networks and resources.

    Other places have no GPU. The function that describes a task finds its missing packages, before a run has cost."""
    loggers.require(config.log.to)
    if functions_here:
        _require_engine(config.algorithm)
        require_resources(config.resources)
    else:
        refuse_elsewhere(config.algorithm.device)


def refuse_gpu_elsewhere(device: object) -> None:
    """Raise `UserError` for a run on a GPU with workers on other machines."""
    if device == "cuda":
        raise UserError(
            "algorithm.device=cuda is for workers of this machine, not for such that dial in; set algorithm.device=cpu"
        )


def refuse_elsewhere(device: object) -> None:
    """Raise `UserError` for a run with this `algorithm.device` on AWS, because its functions have no GPU."""
    if device == "cuda":
        raise UserError("algorithm.device=cuda: functions of AWS have no GPU; set algorithm.device=cpu")


def refuse_language(algorithm: object) -> None:
    """Raise `UserError` if the algorithm is for agents that speak, which this back-end cannot serve."""
    function = ALGORITHMS[algorithm].function if isinstance(algorithm, str) and algorithm in ALGORITHMS else ""
    if function and function not in DEPLOYED:
        raise UserError(
            f"algorithm.name={algorithm}: a function `{function}` would read a whole model at every start, with more"
            " packages than AWS takes; train on machines of yours, with the back-end local or ray"
        )


def require_resources(resources: Mapping[str, Resource]) -> None:
    """Raise `UserError` if a resource's program is missing. The program is not started."""
    for name, resource in resources.items():
        _require_resource(name, resource)


def _require_resource(name: str, resource: Resource) -> None:
    if resource.serve:
        try:
            refuse_standard(resource.serve.partition(":")[0])
        except ValueError as error:
            raise UserError(f"resources.{name}.serve: {error}") from error
        if fault := function_fault(resource.serve):
            raise UserError(f"resources.{name}.serve: {fault}")
    words = shlex.split(resource.command)
    if words and shutil.which(words[0]) is None:
        place = shutil.which(words[0], path=_GAMES)
        advice = f"; name it {place}" if place else ""
        raise UserError(f"resources.{name}.command: {words[0]!r} is not installed, or not on the PATH{advice}")
    if resource.http:
        _require_service(name, resource)
    if resource.sandbox != "none":
        _require_sandbox(name, resource)


def _require_service(name: str, resource: Resource) -> None:
    from marless.functions.resources.serving.kinds.http import begin
    from marless.functions.resources.serving.kinds.kind import NoAnswer

    try:
        begin(name, resource)
    except NoAnswer as error:
        raise UserError(f"resources.{name}.http: {error}") from error


def _require_sandbox(name: str, resource: Resource) -> None:
    from marless.functions.resources.serving.sandbox import SandboxError, require

    try:
        require(resource.sandbox, resource.sandbox_paths)
    except SandboxError as error:
        raise UserError(f"resources.{name}.sandbox: {error}") from error


def _require_engine(algorithm: AlgorithmConfig) -> None:
    if algorithm.network not in LAYERED:
        extras.require("networks", f"algorithm.network={algorithm.network}")
    if algorithm.engine == "native":
        _require_kernels()
    if algorithm.engine == "torch" and ALGORITHMS.lookup(algorithm.name).function:
        extras.require("learner", f"algorithm.name={algorithm.name}")
    elif algorithm.engine == "torch":
        extras.require("learner", "algorithm.device=cuda" if algorithm.device == "cuda" else "algorithm.engine=torch")
    if algorithm.device == "cuda" and not gpus.names():
        raise UserError("algorithm.device=cuda: torch finds no GPU here; set algorithm.device=cpu")


def _require_kernels() -> None:
    from marless.functions.native.kernels import kernels

    try:
        kernels()
    except MissingExtra as error:
        raise UserError(str(error)) from error
