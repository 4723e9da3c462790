"""The results of native learners have one hash on every machine.

`make test-kernels` compares them with numpy's and OpenBLAS's kernels for other processors, which round otherwise.
"""

import hashlib

import numpy as np
import pytest
from built_kernels import needs_kernels
from engine_rounds import prepared

pytestmark = needs_kernels

# Of perceptrons without and with layer norm.
HASHES = {
    "ippo": ("d485b1cb33687639", "b23336e771c4723c"),
    "mappo": ("0bdcd41d394b5f39", "07617de1c991f019"),
    "happo": ("bad89c90c8194032", "1e87a6c46bac268b"),
    "iql": ("61643120e3a01a3c", "5372f32129d3a215"),
    "vdn": ("84fb6438b7dc05b8", "37baff0b9216971d"),
    "qmix": ("720f2bbb747fa993", "0314c8878e714082"),
    "qplex": ("4c9f30f32f2b9d20", "39f24776db0a45f5"),
    "pqn": ("2b0a6e5ecea286bd", "cda5ebdeb1564ba3"),
}
# Functions that numpy leaves to kernels and libraries that differ between processors.
INEXACT = (
    *((np, name) for name in ("exp", "exp2", "expm1", "log", "log1p", "log2", "logaddexp", "tanh", "sin", "cos")),
    *((np, name) for name in ("power", "float_power", "dot", "vdot", "inner", "tensordot", "matmul", "einsum")),
    *((np.linalg, name) for name in ("qr", "eigh", "norm", "solve", "svd", "inv")),
)


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("name", HASHES)
def test_round_has_one_hash_and_calls_nothing_inexact(name, layer_norm, monkeypatch):
    train = prepared(name, np.float32, own_start=True, engine="native", layer_norm=layer_norm)
    for module, function in INEXACT:
        monkeypatch.setattr(module, function, _refused(function))
    done = train()
    hashed = hashlib.sha256()
    for key in sorted(done.tensors):
        hashed.update(key.encode() + np.ascontiguousarray(done.tensors[key]).tobytes())
    assert hashed.hexdigest()[:16] == HASHES[name][layer_norm]


def _refused(name):
    def refuse(*arguments, **keywords):
        raise AssertionError(f"numpy.{name} differs between processors")

    return refuse
