"""Policies in a format of other programs: the files of an export, by name."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from marless.exports.agent_policy import AgentPolicy, agent_policies
from marless.exports.destination import file_names
from marless.exports.plain_tensors import ATTENTION, MODULE, plain_tensors
from marless.extras import require
from marless.functions.encoding import to_json_file
from marless.functions.environments import spaces
from marless.reports.policy import TeamPolicy, without_secrets

DOCUMENT, PLAYER, README = "policies.json", "play.py", "README.txt"
_PLAYERS = Path(__file__).parent / "players"
# The folder, and its modules for the players' encoding and decoding.
SPACES = "marless_spaces"
_CODEC_FILES = ("__init__", "observations", "actions", "agent", "team", "orders")

_Files = dict[str, bytes]


@dataclass(frozen=True)
class PolicyFormat:
    """A format: its files next to DOCUMENT, each agent's entry there, its player, and the extra that it needs."""

    write: Callable[[Sequence[AgentPolicy]], tuple[_Files, list[dict[str, Any]]]]
    plays_with: str
    extra: str = ""
    note: str = ""  # a line of README about further files


def policy_files(team: TeamPolicy, format_: str, origin: dict[str, Any]) -> _Files:
    """The files by name. `origin` is the policies' origin in DOCUMENT. Raises `UserError` for policies that the format
    cannot hold, and for missing packages."""
    file_format = FORMATS[format_]
    if file_format.extra:
        require(file_format.extra, f"--to {format_}")
    policies = agent_policies(team)
    files, entries = file_format.write(policies)
    agents = {policy.name: _entry(policy) | entry for policy, entry in zip(policies, entries, strict=True)}
    document = {
        "format": format_,
        "marless": version("marless"),
        **origin,
        "task": msgspec.to_builtins(without_secrets(team.task)),
        "turns": team.spec.turns,
        "greedy": team.greedy,
        "agents": agents,
        "without_policy": [name for name in team.agents if name not in agents],
    }
    player = (_PLAYERS / f"play_{format_}.py").read_bytes()
    codec = {f"{SPACES}/{name}.py": Path(spaces.__file__).with_name(f"{name}.py").read_bytes() for name in _CODEC_FILES}
    return {**files, DOCUMENT: to_json_file(document), PLAYER: player, README: _readme(file_format).encode(), **codec}


def _entry(policy: AgentPolicy) -> dict[str, Any]:
    return {
        "inputs": policy.inputs,
        "states": policy.states,
        "observation_shape": policy.observation_shape,
        "outputs": policy.outputs,
        "actions": asdict(policy.actions),
        "spaces": policy.spaces,
        "log_std": policy.log_std,
        "order": None if policy.order is None else policy.order.document,
    }


def _onnx(policies: Sequence[AgentPolicy]) -> tuple[_Files, list[dict[str, Any]]]:
    from marless.exports.onnx_graph import onnx_model

    return _one_each(policies, "onnx", onnx_model)


def _torch(policies: Sequence[AgentPolicy]) -> tuple[_Files, list[dict[str, Any]]]:
    from marless.exports.torch_program import torch_program

    return _one_each(policies, "pt2", torch_program)


def _one_each(
    policies: Sequence[AgentPolicy], suffix: str, write: Callable[[AgentPolicy], bytes]
) -> tuple[_Files, list[dict[str, Any]]]:
    names = file_names([policy.name for policy in policies], suffix)
    files = {name: write(policy) for name, policy in zip(names, policies, strict=True)}
    return files, [{"file": name} for name in names]


def _readme(format_: PolicyFormat) -> str:
    return f"""Policies of a team that MARLess trained. They need no MARLess, only {format_.plays_with}:

    python play.py

{PLAYER}         a class that plays them, to copy or to import: Player().act({{"agent_0": observation}})
{SPACES}/ what {PLAYER} makes network inputs of observations with, and actions of what networks chose
{format_.note}{DOCUMENT}   what each agent takes and gives

{PLAYER} takes observations as the environment returns them, and masks, and gives actions as its step takes them, greedy
ones; several observations are arrays with more axes in front. Where "turns" is true in {DOCUMENT} and agents have
"states", it takes the observations of all agents at every turn, and turn="agent" says who acts.

Networks themselves take "observation" as rows of numbers (spaces in {DOCUMENT} say of what; images as numbers of 0 to
1, choices as one-hots) and give "action" as the environment takes it. "mask" is true where an action is legal. "hidden"
and "last_action" are zeros at the start of an episode, and after every step what the network gave as "next_hidden" and
"next_last_action". "outputs" are logits (values if "greedy" is true), or means, followed by log standard deviations
where there are twice as many as actions;
"log_std" are those of a Gaussian that does not depend on the observation.
"""


FORMATS = {
    "onnx": PolicyFormat(_onnx, "onnxruntime and numpy", "export"),
    "torch": PolicyFormat(_torch, "torch and numpy", "learner"),
    "safetensors": PolicyFormat(
        plain_tensors, "numpy and safetensors", note=f"{MODULE} and {ATTENTION} compute the layers of networks\n"
    ),
}
