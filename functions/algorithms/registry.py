"""The algorithms by name: the built-in ones, and plug-ins of other packages.

A plug-in is an entry point of the group `marless.algorithms`: its name is the algorithm's name, its value
``package.module:SPEC`` an `AlgorithmSpec`. Every process that looks up the algorithm imports that module, including the
command line and the coordinator, so it must load without torch; the module that `implementation` names is imported
where stages run, and may need torch. A plug-in cannot take a built-in name.
"""

import difflib
import importlib
from functools import cache
from importlib.metadata import EntryPoint
from typing import cast

import msgspec

from functions.algorithms.ddpg.specs import IDDPG, MADDPG
from functions.algorithms.imitation.specs import BC
from functions.algorithms.ppo.specs import HAPPO, IPPO, MAPPO
from functions.algorithms.sac.specs import ISAC, MASAC
from functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec
from functions.algorithms.stage import Implementation
from functions.algorithms.validation import missing_stages, violation
from functions.algorithms.value.specs import IQL, QMIX, QPLEX, VDN
from functions.contract import BadRequest, Hyperparameters, MissingExtra
from functions.isolation.keeper import settled
from functions.plug_ins import plug_ins

GROUP = "marless.algorithms"

BUILT_IN = (IPPO, MAPPO, HAPPO, IQL, VDN, QMIX, QPLEX, IDDPG, MADDPG, ISAC, MASAC, BC)

ALGORITHMS: dict[str, AlgorithmSpec] = {spec.name: spec for spec in BUILT_IN}


def names() -> tuple[str, ...]:
    """Every algorithm, plug-ins last."""
    return (*ALGORITHMS, *sorted(plug_ins(GROUP).keys() - ALGORITHMS.keys()))


def algorithm(name: str) -> AlgorithmSpec:
    """The specification called `name`.

    Raises `BadRequest` for an unknown name or an unusable plug-in, `MissingExtra` if a package that it needs is not
    installed.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    offers = plug_ins(GROUP).get(name, ())
    if len(offers) > 1:
        listed = ", ".join(offer.value for offer in offers)
        raise BadRequest(f"several packages offer the algorithm {name!r}: {listed}; uninstall all but one")
    for offer in offers:
        return _load(offer)
    nearest = difflib.get_close_matches(name, names(), n=1)
    hint = f"did you mean {nearest[0]}? " if nearest else ""
    raise BadRequest(f"no algorithm is called {name!r}; {hint}It is one of {', '.join(names())}")


def implementation(spec: AlgorithmSpec) -> Implementation:
    """The module with the algorithm's stages, imported now; raises `BadRequest` and `MissingExtra`."""
    where = f"algorithm {spec.name!r} ({spec.implementation})"
    try:
        with settled(f"{spec.name}, import"):
            code = importlib.import_module(spec.implementation)
    except Exception as error:
        raise _load_error(where, spec.implementation, error) from error
    if missing := missing_stages(spec, code):
        raise BadRequest(f"{where} cannot be used: {missing}")
    return cast(Implementation, code)


def configuration(spec: AlgorithmSpec, hyperparameters: Hyperparameters) -> AlgorithmConfig:
    """The typed configuration of a message; raises `BadRequest` naming the field."""
    try:
        return msgspec.convert({"name": spec.name, **hyperparameters}, spec.config)
    except msgspec.ValidationError as error:
        raise BadRequest(f"algorithm {spec.name}: {error}") from error


def hyperparameters(config: AlgorithmConfig) -> Hyperparameters:
    """The settings as sent in messages, without those that are None; raises `BadRequest` for unsupported types."""
    settings = msgspec.to_builtins(config)
    del settings["name"]
    found = {name: value for name, value in settings.items() if value is not None}
    for name, value in found.items():
        try:
            msgspec.convert({name: value}, Hyperparameters)
        except msgspec.ValidationError as error:
            raise BadRequest(
                f"{name} = {value!r} cannot travel to functions; what can is a number, a text, true or false, or a "
                "list of whole numbers"
            ) from error
    return cast(Hyperparameters, found)


@cache
def _load(offer: EntryPoint) -> AlgorithmSpec:
    where = f"algorithm plug-in {offer.name!r} ({offer.value})"
    try:
        with settled(f"{offer.name}, load"):
            spec = offer.load()
    except Exception as error:
        raise _load_error(where, offer.value, error) from error
    if wrong := violation(spec):
        raise BadRequest(f"{where} cannot be used: {wrong}")
    if spec.name != offer.name:
        raise BadRequest(f"{where} cannot be used: it calls itself {spec.name!r}; both names must be the same")
    return cast(AlgorithmSpec, spec)


def _load_error(where: str, module: str, error: Exception) -> BadRequest | MissingExtra:
    """The error for a module that does not load; only other projects' top-level packages count as missing."""
    own = module.partition(":")[0].partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and error.name and "." not in error.name and error.name != own:
        return MissingExtra(f"{where} needs the package {error.name!r}: pip install {error.name}")
    return BadRequest(f"{where} does not load: {type(error).__name__}: {' '.join(str(error).split())}")
