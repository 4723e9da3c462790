"""Networks that torch makes: built-in factories, and a user's, ``package.module:factory``.

A factory takes a `NetworkShape` and returns a `torch.nn.Module`. Its ``forward(observation, rest)`` maps B rows to
``[B, outputs]``, see `marless.functions.nn.shape`. A `MixerShape` has factories of a user alone.
"""

import importlib
import itertools
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from marless.functions.errors import BadRequest
from marless.functions.isolation.process_guard import remark, restore_arithmetic_after
from marless.functions.named_code import refuse_standard, require_maker
from marless.functions.nn.shape import MixerShape, NetworkShape

# Channels of images: grey, grey with transparency, colours, colours with transparency.
_COLOURS = (1, 2, 3, 4)
# Channels of successive convolutions, each with half the sides of the one before until the sides are at most this.
CHANNELS, SMALL = (16, 32, 64, 64), 8


class Cnn(nn.Module):
    """Convolutions over an image ``[H, W, C]``, then dense layers over their outputs and the rest."""

    def __init__(self, shape: NetworkShape) -> None:
        super().__init__()
        if len(shape.observation) != 3:
            raise BadRequest(f"algorithm.network=cnn takes images [H, W, C], not {_sizes(shape)}; use mlp")
        height, width, channels = shape.observation
        if height in _COLOURS and min(width, channels) > max(_COLOURS):
            remark(
                f"algorithm.network=cnn reads observations {_sizes(shape)} as images [height, width, channels], of"
                f" {channels} channels; if the channels come first, have the environment return"
                " np.moveaxis(image, 0, -1)"
            )
        layers: list[nn.Module] = []
        for index, after in enumerate(CHANNELS):
            stride = 2 if max(height, width) > SMALL else 1
            if index > 1 and stride == 1:
                break
            layers += [_orthogonal(nn.Conv2d(channels, after, 3, stride, padding=1)), nn.ReLU()]
            height, width, channels = -(-height // stride), -(-width // stride), after
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        self.dense = dense(height * width * channels + shape.rest, shape)

    def forward(self, observation: Tensor, rest: Tensor) -> Tensor:
        """``[B, H, W, C]`` and ``[B, rest]`` to ``[B, outputs]``."""
        features = self.convolutions(observation.movedim(-1, -3))
        return self.dense(torch.cat([features, rest], dim=-1))  # type: ignore[no-any-return]


BUILT_IN: dict[str, Callable[[NetworkShape], nn.Module]] = {"cnn": Cnn}


def dense(inputs: int, shape: NetworkShape) -> nn.Sequential:
    """Dense layers with the widths of `shape.hidden` and ReLU, and the outputs, initialised like `Layer.initialise`."""
    widths = (inputs, *shape.hidden)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [_orthogonal(nn.Linear(before, after)), nn.ReLU()]
    return nn.Sequential(*layers, _orthogonal(nn.Linear(widths[-1], shape.outputs), shape.output_gain))


def build(shape: NetworkShape | MixerShape, seed: int = 0) -> nn.Module:
    """A module of this shape, its weights drawn from `seed`, without a change of torch's own generator.

    Raises `BadRequest` for a factory that cannot be found, or makes something else.
    """
    factory = _factory(shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            module = factory(shape)
        except (BadRequest, MemoryError):
            raise
        except Exception as error:
            raise BadRequest(
                f"{shape.setting}, called with a shape, raised {type(error).__name__}: {_line(error)}"
            ) from error
    if not isinstance(module, nn.Module):
        raise BadRequest(f"{shape.setting} makes a {type(module).__name__}, not a torch.nn.Module")
    if buffers := sorted(name for name in module.state_dict() if name not in dict(module.named_parameters())):
        raise BadRequest(
            f"{shape.setting} keeps {buffers[0]} beside its parameters, which no round would store;"
            " normalise by layers, not by batches"
        )
    return module.eval()


@cache
def stateless(shape: NetworkShape | MixerShape) -> nn.Module:
    """A module of this shape for `torch.func.functional_call`. Its own weights mean nothing."""
    return build(shape)


def _factory(shape: NetworkShape | MixerShape) -> Callable[..., object]:
    built_in = BUILT_IN if isinstance(shape, NetworkShape) else {}
    if shape.factory in built_in:
        return built_in[shape.factory]
    if shape.factory == "attention":
        raise BadRequest(
            f"{shape.setting} is built in now. Networks of the earlier torch module cannot be"
            " trained further. Start a new run with the config.toml of this run"
        )
    module, _, attribute = shape.factory.partition(":")
    try:
        refuse_standard(module)
        with restore_arithmetic_after(f"{shape.factory}, import"):
            make_module: Callable[..., object] = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        others = f"mlp, {', '.join(built_in)}, or " if built_in else ""
        raise BadRequest(
            f"{shape.setting} cannot be imported: {_line(error)}; it is {others}package.module:factory"
        ) from error
    try:
        require_maker(make_module, lambda kind: issubclass(kind, nn.Module), ("Module",), "a torch.nn.Module")
    except (ImportError, ValueError) as error:
        raise BadRequest(f"{shape.setting}: {_line(error)}") from error
    return make_module


def _orthogonal(layer: nn.Linear | nn.Conv2d, gain: float = 2**0.5) -> nn.Linear | nn.Conv2d:
    nn.init.orthogonal_(layer.weight, gain)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


def _sizes(shape: NetworkShape) -> str:
    return str(list(shape.observation))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
