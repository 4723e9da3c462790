"""Mixing networks of factories: trained by torch, with the rules of the one in numpy."""

import numpy as np
import pytest
from value_scenes import APART, PAIRED, WIDE, Scene

from marless.coordinator.config.loading import load
from marless.coordinator.config.schema import ConfigError
from marless.functions.algorithms.specification import CLOSED_FORMS
from marless.functions.errors import BadRequest
from marless.testing.algorithms.conformance import check

EMBED = {"mixing_embed_dim": 3, "hypernet_embed": 5}


def scene(mixer, name="qmix", **settings):
    factory = {"mixer": f"mixing_modules:{mixer}", "engine": "torch"} if mixer else {"engine": "torch"}
    return Scene(name, **{**factory, **(EMBED if name == "qmix" else {}), **settings})


@pytest.mark.parametrize("team", [PAIRED, APART], ids=["paired", "apart"])
@pytest.mark.parametrize("sides", [(), (0, 1, 0, 1)], ids=["one side", "two sides"])
def test_a_module_that_adds_learns_as_vdn_does(team, sides):
    # VDN shares the level of values among the living agents, and mixing networks add all of it: here it is 0.
    settings = {"team": team, "sides": sides, "tau": 0.01, "max_grad_norm": WIDE, "huber_delta": None}
    own, vdn = scene("add", **settings), scene(None, "vdn", **settings)
    for key in vdn.tensors:
        if key.startswith("normaliser/"):
            vdn.tensors[key][3] = 0
        own.tensors[key] = vdn.tensors[key]
    found, expected = own.run(), vdn.run()
    for key, array in expected.items():
        np.testing.assert_allclose(found[key], array, rtol=1e-6, atol=1e-6, err_msg=key)


def as_module(tensors):
    """Return the tensors of the built-in mixing networks in the form of `Qmix`."""
    renamed = {}
    for key, array in tensors.items():
        part, group, *rest = key.split("/")
        if part in ("mixer", "mixer_target"):
            name, layer = rest
            kind = {"w": "weight", "b": "bias"}[layer[0]]
            renamed[f"{part}/{group}/net/{name}.{2 * int(layer[1:])}.{kind}"] = array.T if kind == "weight" else array
        elif part != "mixer_optimiser":
            renamed[key] = array
    return renamed


@pytest.mark.parametrize(("dtype", "near"), [(np.float32, 1e-5), (np.float64, 1e-10)], ids=["float32", "float64"])
def test_module_of_qmix_mixer_learns_like_it(dtype, near):
    # Adam's guard keeps steps along gradients near 0 comparable.
    settings = {"dtype": dtype, "adam_eps": 1e-3}
    built_in, own = scene(None, **settings), scene("qmix", **settings)
    own.tensors |= as_module(built_in.tensors)
    found, expected = own.run(), as_module(built_in.run())
    for key, array in expected.items():
        np.testing.assert_allclose(found[key], array, rtol=near, atol=near, err_msg=key)
    assert any(key.startswith("mixer/") for key in expected)


@pytest.mark.parametrize("mixer", ["add", "qmix"])
def test_the_bytes_do_not_depend_on_the_placement(mixer):
    packed, split = (scene(mixer, team=APART).run(rule) for rule in ("packed", "split"))
    assert packed.keys() == split.keys()
    assert all(packed[key].tobytes() == split[key].tobytes() for key in packed)


@pytest.mark.slow
def test_it_keeps_the_rules_of_algorithms():
    settings = {"hidden": [8], "updates_per_round": 2, "batch_size": 8, "buffer_size": 42, "engine": "torch"}
    algorithm, task = scene("qmix").algorithm, scene("qmix").spec
    assert check(algorithm, settings | EMBED | {"mixer": "mixing_modules:qmix"}, [task]) == ()


@pytest.mark.parametrize(
    ("mixer", "message"),
    [
        ("missing", "mixing_modules:missing cannot be imported: module 'mixing_modules' has no attribute 'missing'"),
        ("nothing", "mixing_modules:nothing makes a int, not a torch.nn.Module"),
        ("broken", "mixing_modules:broken, called with a shape, raised RuntimeError: no such width"),
        ("counted", "mixing_modules:counted keeps norm.num_batches_tracked beside its parameters"),
        ("wide", r"mixing_modules:wide gives \[2, 1\] for 2 rows, and must give \[2\]"),
        ("endless", "mixing_modules:endless gives joint values that are not finite"),
        ("deaf", "mixing_modules:deaf gives joint values that depend on no utility"),
        ("lost", "mixing_modules:lost: its forward raised RuntimeError: "),
    ],
)
def test_a_factory_that_will_not_do_is_named(mixer, message):
    with pytest.raises(BadRequest, match=f"algorithm.mixer={message}") as caught:
        scene(mixer)
    assert "\n" not in str(caught.value)


def test_values_that_stop_being_finite_are_named():
    made = scene("qmix")
    made.tensors["mixer/g00/net/last_bias.2.bias"][:] = np.inf
    with pytest.raises(BadRequest, match="mixing_modules:qmix gives joint values that are not finite"):
        made.run()


def test_factory_named_in_stored_bytes_is_not_imported():
    made, other = scene("qmix"), scene("add")
    other.tensors = made.tensors
    with pytest.raises(
        BadRequest, match=r"is a mixing network of mixing_modules:qmix, and algorithm.mixer is mixing_modules:add"
    ):
        other.run()
    other.tensors = scene(None).tensors
    with pytest.raises(BadRequest, match=r"is qmix's own mixing network, and algorithm.mixer is mixing_modules:add"):
        other.run()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("algorithm.mixer=add",), "mixer is 'add', and a factory's name is package.module:factory"),
        (
            ("algorithm.mixer=a:b", "algorithm.engine=numpy"),
            "numpy computes no torch modules; set algorithm.engine=torch",
        ),
        (("algorithm.name=vdn", "algorithm.mixer=a:b"), "mixer is a key of qmix, not of vdn"),
    ],
)
def test_settings_that_exclude_each_other_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        load(None, ("algorithm.name=qmix", *settings))


def test_factory_mixer_is_computed_by_torch():
    assert load(None, ["algorithm.name=qmix", "algorithm.mixer=a:b"]).algorithm.engine == "torch"
    assert load(None, ["algorithm.name=qmix"]).algorithm.engine in CLOSED_FORMS
