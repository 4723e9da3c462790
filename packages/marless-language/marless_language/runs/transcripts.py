"""The conversations of a run's roles, as text."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from marless.backends import registry
from marless.coordinator.core import requests
from marless.coordinator.core.rounds import serving
from marless.coordinator.core.state import Plan, State
from marless.coordinator.errors import UserError
from marless.functions import codec
from marless.functions.data.trajectory import rollout_prefix, tensors_below
from marless.functions.errors import MissingExtra
from marless.functions.messages.actor import SampleTask
from marless.runs.evaluator_episodes import answers
from marless.runs.folder import RunFolder
from marless.runs.run_policies import temporary_download
from marless_language.base_header import read_header
from marless_language.errors import UnusableBase
from marless_language.model.text_tokenizer import tokenizer_of
from marless_language.protocol import Tokenizer
from marless_language.trajectories import join


def transcripts(folder: RunFolder, episodes: int) -> list[str]:
    """Return episodes of the newest policies, drawn like in training, each in several lines. Raises `UserError`."""
    with temporary_download(folder) as (run, temporary):
        plan, state = run.plan, run.saved_state
        with closing(registry.backend(registry.DEFAULT).open(temporary, 1)) as connection:
            connection.serve(plan.config.resources)
            task, function = _task(plan, state, episodes), serving(plan, "actor")
            [(done, _)] = answers(connection.invoker, function, [task], plan.config.attempts)
        assert plan.inputs.language_model is not None
        path = temporary / "objects" / plan.inputs.language_model.base.key
        try:
            tokenizer = tokenizer_of(read_header(path).tokenizer)
        except (MissingExtra, UnusableBase) as error:
            raise UserError(str(error)) from error
    tensors: dict[str, NDArray[Any]] = {}
    for key, body in done.inlined.items():
        tensors |= codec.decode(body, key)
    return [*_texts(state, tokenizer, tensors, episodes)]


def _task(plan: Plan, state: State, episodes: int) -> SampleTask:
    """Return a task that samples one rollout of different episodes."""
    like = requests.sample(plan, state)
    sampling = msgspec.structs.replace(like.sampling, rollouts=(0,), num_envs=episodes, copies=1, unfinished=())
    return msgspec.structs.replace(
        like,
        address=requests.address(plan, state, "replay"),
        timeout_s=plan.size_of(serving(plan, "actor")).timeout_s,
        inline_objects=True,
        sampling=sampling,
    )


def _texts(state: State, tokenizer: Tokenizer, tensors: Mapping[str, NDArray[Any]], episodes: int) -> Iterator[str]:
    spec = state.env_spec
    turns = join(spec, tensors, [0]).turns
    rewards = tensors_below(tensors, f"{rollout_prefix(0)}/")["reward"]
    width = max(map(len, spec.agents))
    for episode in range(episodes):
        lines = [f"episode {episode + 1}"]
        for turn in turns:
            if not turn.mask[episode].any():  # it is another's turn, or the episode is over
                continue
            prompt, reply = np.split(turn.tokens[episode], [turn.prompt])
            reply = reply[turn.mask[episode]]
            texts = (tokenizer.decode(part.tolist()) for part in (prompt, reply))
            lines.append(f"  {spec.agents[turn.role]:<{width}}  {' | '.join(texts)}")
        gains = (f"{name} {reward:g}" for name, reward in zip(spec.agents, rewards[episode], strict=True))
        lines.append(f"  {'reward':<{width}}  {', '.join(gains)}")
        yield "\n".join(lines)
