"""Packages that a run needs on this machine: asked for before there is a folder, let alone a bill."""

import importlib

from coordinator.config.schema import RunConfig
from coordinator.errors import UserError
from functions.algorithms.specification import AlgorithmConfig
from marless import extras
from marless.loggers import registry as loggers


def require_packages(config: RunConfig, functions_here: bool = True) -> None:
    """Raises `UserError` unless loggers are known and installed and, where functions run on this machine
    (`functions_here`), so is what computes networks. What a task needs is found by the function that describes it,
    before the run costs anything."""
    loggers.require(config.log.to)
    if functions_here:
        _require_engine(config.algorithm)


def _require_engine(algorithm: AlgorithmConfig) -> None:
    if algorithm.network != "mlp":
        extras.require("networks", f"algorithm.network={algorithm.network}")
    if algorithm.engine == "torch":
        extras.require("learner", "algorithm.device=cuda" if algorithm.device == "cuda" else "algorithm.engine=torch")
    if algorithm.device == "cuda" and not importlib.import_module("torch").cuda.is_available():
        raise UserError("algorithm.device=cuda: torch finds no GPU here; set algorithm.device=cpu")
