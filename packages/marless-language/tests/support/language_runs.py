"""Small runs of `text/relay`: 16 episodes a round, and a base of two layers that has learned a little."""

from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from driver import train

from marless.coordinator.core.state import RunInputs
from marless.functions.environments.base import EnvTask
from marless.functions.messages.message import Ref
from marless.functions.messages.order import LanguageModel
from marless.infra.local.file_storage import FileStorage
from marless_language.base_maker import make_base
from marless_language.base_request import BaseRequest, Training, lessons_of
from marless_language.model.pretraining import Pretraining, pretrain
from marless_language.protocol import Lesson
from marless_language.registry import make
from marless_language.symbols import Symbols

RELAY = (
    "task.name=text/relay", "algorithm.name=grpo", "algorithm.group_size=4", "actors.num_envs=16", "stop.rounds=3",
    "evaluation.every=2", "evaluation.episodes=8", "evaluation.final_episodes=8",
)  # fmt: skip
KEY = "rounds/model.base.safetensors"


@cache
def task_base(name: str, **options: str | int) -> bytes:
    """The same bytes for all runs of a process."""
    return make_base(BaseRequest(target="", task=EnvTask(name=name, options=options), training=Training(steps=40)))


def relay_base() -> bytes:
    return task_base("text/relay")


def speaking(folder: Path, body: bytes) -> RunInputs:
    storage = FileStorage(folder / "objects")
    if not storage.list(KEY):
        storage.put(KEY, body)
    ref = Ref(key=KEY, sha256=sha256(body).hexdigest(), size=len(body))
    return RunInputs(language_model=LanguageModel(base=ref, rank=2, layers=1))


def speak(folder: Path, *overrides: str, base: bytes = b"", **settings):
    """Train like `driver.train`, and continue a run in the folder. `base` is by default the relay's base."""
    return train(folder, [*RELAY, *overrides], inputs=speaking(folder, base or relay_base()), **settings)


@cache
def letters_base() -> bytes:
    """Of the letters a to c, which it repeats."""
    lesson = Lesson(np.array([[0, 0], [1, 1], [2, 2]], np.int32), prompt=1)
    return pretrain([lesson], Symbols(["a", "b", "c"]), 8, 0, Pretraining(steps=9))


@cache
def short_base() -> bytes:
    symbols, lessons = lessons_of(make(EnvTask(name="text/relay")), "text/relay", 0)
    return pretrain(lessons, symbols, 8, 0, Pretraining(steps=1))
