"""What is stored for a new run before it begins."""

from typing import NamedTuple

from coordinator.config.schema import RunConfig
from coordinator.core.opponents import Fixed
from coordinator.drive.ports import Storage
from coordinator.runs.given.datasets import store_dataset
from coordinator.runs.policies import store_opponents
from functions.contract import Ref


class Inputs(NamedTuple):
    """Opponents that have policies, and what the run learns from in place of its own rollouts."""

    opponents: Fixed | None = None
    dataset: Ref | None = None

    @property
    def keys(self) -> list[str]:
        """Where they are stored."""
        return [ref.key for ref in (self.opponents and self.opponents.policies, self.dataset) if ref]


def store_inputs(config: RunConfig, run: str, storage: Storage) -> Inputs:
    """Stores the inputs of a new run; raises `UserError` for unusable ones, and `StorageFault`."""
    return Inputs(store_opponents(config, run, storage), store_dataset(config, run, storage))
