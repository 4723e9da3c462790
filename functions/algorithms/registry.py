"""The algorithms by name: the built-in ones, and plug-ins of other packages.

A plug-in is an entry point of the group `marless.algorithms`: its name is the algorithm's name, its value
``package.module:SPEC`` an `AlgorithmSpec`. Every process that looks up the algorithm imports that module, including the
command line and the coordinator, so it must load without torch. The module that `implementation` names is imported only
by stages, and may need torch. A plug-in cannot take a built-in name.
"""

import difflib
import importlib
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, cast

import msgspec

from marless.functions.algorithms.specification import AlgorithmConfig, AlgorithmSpec
from marless.functions.errors import BadRequest
from marless.functions.messages.learner import Hyperparameters, Learning
from marless.functions.plug_in_registry import Registry, imported, is_reference, load_error

if TYPE_CHECKING:  # modules that only describe algorithms load nothing that only stages need
    from marless.functions.algorithms.stage import Implementation


# The nearest algorithm here for each name in other libraries.
_NEAREST = {
    "a2c": "ippo",
    "coma": "mappo",
    "ddpg": "iddpg",
    "dqn": "iql",
    "ia2c": "ippo",
    "maa2c": "mappo",
    "matd3": "maddpg",
    "ppo": "ippo",
    "sac": "isac",
    "td3": "iddpg",
}


class _Algorithms(Registry[AlgorithmSpec]):
    by_module = True

    def unknown(self, name: str) -> str:
        if name in self.extras:
            return super().unknown(name)
        nearest = _NEAREST.get(name.lower()) or "".join(difflib.get_close_matches(name.lower(), self, n=1))
        hint = f"did you mean {nearest}? There are" if nearest else "there are"
        return f"no algorithm is called {name!r}; {hint} {', '.join(self)}"

    def load(self, name: str, offer: EntryPoint) -> AlgorithmSpec:
        from marless.functions.algorithms.validation import violation
        from marless.functions.isolation.process_guard import restore_arithmetic_after

        plug_in = f"algorithm plug-in {name!r} ({offer.value})"
        try:
            with restore_arithmetic_after(f"{name}, load"):
                spec: Any = imported(offer)
                spec = algorithm_of(spec, name) if is_reference(name) else spec
        except Exception as error:
            raise load_error(plug_in, offer.value, error) from error
        if problem := violation(spec):
            raise BadRequest(f"{plug_in} cannot be used: {problem}")
        if spec.name != name:
            raise BadRequest(f"{plug_in} cannot be used: it calls itself {spec.name!r}; both names must be the same")
        return cast(AlgorithmSpec, spec)


ALGORITHMS = _Algorithms(
    "marless.algorithms",
    built_in={
        "ippo": "marless.functions.algorithms.ppo.specs:IPPO",
        "mappo": "marless.functions.algorithms.ppo.specs:MAPPO",
        "happo": "marless.functions.algorithms.ppo.specs:HAPPO",
        "iql": "marless.functions.algorithms.value.specs:IQL",
        "vdn": "marless.functions.algorithms.value.specs:VDN",
        "qmix": "marless.functions.algorithms.value.specs:QMIX",
        "qplex": "marless.functions.algorithms.value.specs:QPLEX",
        "pqn": "marless.functions.algorithms.value.pqn_specs:PQN",
        "iddpg": "marless.functions.algorithms.ddpg.specs:IDDPG",
        "maddpg": "marless.functions.algorithms.ddpg.specs:MADDPG",
        "isac": "marless.functions.algorithms.sac.specs:ISAC",
        "masac": "marless.functions.algorithms.sac.specs:MASAC",
        "bc": "marless.functions.algorithms.imitation.specs:BC",
    },
    label=lambda name: f"algorithm {name!r}",
    extras={"grpo": "language"},
)


algorithm = ALGORITHMS.lookup


def algorithm_of(value: object, name: str) -> Any:
    """Return an `AlgorithmSpec`, or the specification that a function makes, with this name.

    Raises `ValueError` for a function that does not evidently make one.
    """
    if callable(value):
        from marless.functions.named_code import require_maker

        require_maker(value, lambda cls: issubclass(cls, AlgorithmSpec), ("AlgorithmSpec",), "an AlgorithmSpec")
        value = value()
    return value.called(name) if isinstance(value, AlgorithmSpec) else value


def trained(learning: Learning) -> AlgorithmSpec:
    """The algorithm of a task as its learners know it: with a base, networks are differences to it."""
    spec = algorithm(learning.algorithm)
    return spec.adapted() if learning.base else spec


def names() -> tuple[str, ...]:
    """Every algorithm, plug-ins last."""
    return tuple(ALGORITHMS)


def implementation(spec: AlgorithmSpec) -> "Implementation":
    """The algorithm's stages. Their module is imported now. Raises `BadRequest` and `MissingExtra`."""
    from marless.functions.algorithms.stage import Implementation
    from marless.functions.algorithms.validation import missing_stages
    from marless.functions.isolation.process_guard import restore_arithmetic_after

    algorithm, code = f"algorithm {spec.name!r}", cast(Any, spec.implementation)
    if isinstance(code, str):
        algorithm = f"{algorithm} ({code})"
        try:
            with restore_arithmetic_after(f"{spec.name}, import"):
                code = importlib.import_module(code)
        except Exception as error:
            raise load_error(algorithm, str(spec.implementation), error) from error
    if missing := missing_stages(spec, code):
        raise BadRequest(f"{algorithm} cannot be used: {missing}")
    return Implementation(**{name: getattr(code, name) for name in Implementation._fields if hasattr(code, name)})


def configuration(spec: AlgorithmSpec, hyperparameters: Hyperparameters) -> AlgorithmConfig:
    """The typed configuration of a message. Raises `BadRequest` naming the field."""
    try:
        return msgspec.convert({"name": spec.name, **hyperparameters}, spec.config)
    except msgspec.ValidationError as error:
        raise BadRequest(f"algorithm {spec.name}: {error}") from error


def hyperparameters(config: AlgorithmConfig) -> Hyperparameters:
    """The settings in messages, except those set to None. Raises `BadRequest` for unsupported types."""
    settings = msgspec.to_builtins(config)
    del settings["name"]
    explicit_settings = {name: value for name, value in settings.items() if value is not None}
    for name, value in explicit_settings.items():
        try:
            msgspec.convert({name: value}, Hyperparameters)
        except msgspec.ValidationError as error:
            raise BadRequest(
                f"{name} = {value!r} cannot travel to functions; what can is a number, a text, true or false, or a "
                "list of whole numbers"
            ) from error
    return cast(Hyperparameters, explicit_settings)
