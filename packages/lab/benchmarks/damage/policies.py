"""Policy files that were damaged, or written to harm: each plays or is refused as `CorruptObject`."""

import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from benchmarks.damage.damages import BYTES, damage
from benchmarks.damage.files import COMMON
from benchmarks.damage.forked import ask, outcome
from benchmarks.damage.table import Table
from marless.coordinator.errors import UserError
from marless.functions import codec
from marless.functions.errors import CorruptObject
from marless.reports.policy import load_policy

_KEY, _FILE = "marless-policies", "policies.safetensors"
_NUMBERS: tuple[Any, ...] = (0, -1, 2**31, 2**63, 0.5, "x", None, [], {}, True)
_Header = dict[str, Any]


def check(number: int, seed: int, table: Table) -> int:
    """Loads and plays `number` files. Returns the number of inputs."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="marless-damage-") as scratch:
        folder = Path(scratch)
        trained = ask(folder, ["train", *COMMON, "stop.rounds=1", "--run", "r"], 600.0)
        assert trained.code == 0, trained.err
        body = (folder / "runs" / "r" / "policies.safetensors").read_bytes()
        made = 0
        for what, damaged in _files(rng, body, number, folder):
            (folder / _FILE).write_bytes(damaged)
            table.add(what, "load_policy", outcome(folder, _act))
            made += 1
    return made


def _files(rng: random.Random, body: bytes, number: int, folder: Path) -> Iterator[tuple[str, bytes]]:
    yield from _hostile(body)
    for index in range(number // 2):
        kind, path = rng.choice(list(BYTES)), folder / "copy"
        path.write_bytes(body)
        damage(rng, path, kind)
        yield f"#{index} {kind}", path.read_bytes()
    for index in range(number // 2):
        header = json.loads(codec.metadata(body)[_KEY])
        yield f"#{index} {_alter(rng, header)}", _with_header(body, json.dumps(header))


def _hostile(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield files that were written to harm."""
    header = json.loads(codec.metadata(body)[_KEY])

    def changed(change: Callable[[_Header], object]) -> bytes:
        copy = json.loads(json.dumps(header))
        change(copy)
        return _with_header(body, json.dumps(copy))

    yield "deep header", _with_header(body, "[" * 500_000)
    yield "deep member", _with_header(body, '{"task":' * 500_000)
    yield "no groups", changed(lambda it: it["team"].update(groups=[]))
    yield "groups beyond the agents", changed(lambda it: it["team"].update(groups=[7, 7, 7]))
    yield "many agents of one name", changed(lambda it: it["spec"].update(agents=["a"] * 100_000))
    yield "many agents", changed(lambda it: it["spec"].update(agents=[f"a{n}" for n in range(100_000)]))
    yield "no agents", changed(lambda it: it["spec"].update(agents=[]))
    yield "no classes", changed(lambda it: it["spec"].update(classes=[]))
    yield "a wide observation", changed(lambda it: it["spec"]["classes"][0].update(observation_size=2**40))
    yield "many actions", changed(lambda it: it["spec"]["classes"][0].update(actions=2**40))
    yield "nothing observed", changed(lambda it: it["spec"]["classes"][0].update(observation_size=0))
    yield "no tensors", bytes(save({}, metadata={_KEY: json.dumps(header)}))
    nan = {name: np.full_like(array, np.nan) for name, array in load(body).items()}
    yield "not numbers", bytes(save(nan, metadata={_KEY: json.dumps(header)}))
    flat = {name: array.reshape(-1) for name, array in load(body).items()}
    yield "tensors of another shape", bytes(save(flat, metadata={_KEY: json.dumps(header)}))


def _alter(rng: random.Random, value: Any, where: str = "$") -> str:
    """Replaces a random part of a header. Says where."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys) if keys else None
        inner = None if key is None else value[key]
        if key is None:
            return where
        if not isinstance(inner, (dict, list)) or not inner or rng.random() < 0.2:
            value[key] = rng.choice(_NUMBERS)
            return f"{where}.{key} = {value[key]!r}"
        value, where = inner, f"{where}.{key}"


def _with_header(body: bytes, header: str) -> bytes:
    return bytes(save(load(body), metadata={_KEY: header}))


def _act() -> int:
    """Loads the file and acts once with its first agents. Returns an exit code."""
    try:
        policy = load_policy(_FILE)
        for agent in policy.agents[:3]:
            kind = policy.spec.classes[policy.spec.class_of[policy.agents.index(agent)]]
            policy.act({agent: np.zeros(kind.observation_size, np.float32)})
    except (CorruptObject, UserError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0
