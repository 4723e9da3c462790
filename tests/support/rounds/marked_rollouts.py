"""Hand-made rollouts: every number in them encodes its position and its successor.

Also the objects that simulated functions store for the rounds that they play.
"""

import numpy as np
import simulated

from marless.functions import codec, keys
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.messages.learner import WholeTask

STEPS, NUM_ENVS = 4, 3
# The fates of environments after each of the four steps: on, `t`erminated (and reset), or `c`ut (and reset). An
# episode that is on at the end of a rollout is cut there without a reset.
FATES = ("..t.", "c..t", ".c..")


def spec(masked=False, own_state=False):
    return EnvSpec(
        agents=("a", "b", "c"),
        classes=(AgentClass("these", (0, 2), 2, 3), AgentClass("other", (1,), 1, 2)),
        horizon=STEPS,
        masked=masked,
        state_size=2 if own_state else 0,
    )


def mark(rollout, t, e, after=False):
    """The mark of a row: thousands for the rollout, tens for the step, ones for the environment, a half after a cut."""
    return 1000 * rollout + 10 * t + e + 0.5 * after


def observed(mark, agent, width=2):
    return [mark, 100 + agent][:width]


def legal(mark, agent, actions):
    """The one action that is not legal depends on the row and the agent."""
    found = np.ones(actions, bool)
    found[int(2 * mark + agent) % actions] = False
    return found


def rollout(number, spec, fates=FATES, dtype=np.float64):
    """The tensors of a rollout, named as actors do, without the rollout's prefix."""
    steps, num_envs = len(fates[0]), len(fates)
    ended = np.array([[fates[e][t] != "." for e in range(num_envs)] for t in range(steps)])
    cuts = [(t, e) for t in range(steps) for e in range(num_envs) if followed(fates, t, e) == "cut"]
    here = np.array([[mark(number, t, e) for e in range(num_envs)] for t in range(steps)])
    beyond = np.array([mark(number, t, e, after=True) for t, e in cuts])
    agents, shape = len(spec.agents), (len(spec.agents), steps, num_envs)
    made = {
        "ended": ended,
        "reward": (here + 0.25 * np.arange(agents)[:, None, None]).astype(dtype),
        "terminated": np.broadcast_to(ended & (followed_all(fates) != "cut"), shape).copy(),
        "alive": np.ones(shape, bool),
        "cut": np.array(cuts, np.int64).reshape(-1, 2),
    }
    for index, kind in enumerate(spec.classes):
        for name, marks in (("", here), ("cut_", beyond)):
            made[f"{name}observation/{index}"] = _each(marks, kind, observed, kind.observation_size, dtype)
            if spec.masked:
                made[f"{name}mask/{index}"] = _each(marks, kind, legal, kind.actions, bool)
        made[f"action/{index}"] = np.stack([(here + agent) % kind.actions for agent in kind.agents]).astype(np.int32)
    if spec.state_size:
        made["state"] = np.stack([here, -here], axis=-1).astype(dtype)
        made["cut_state"] = np.stack([beyond, -beyond], axis=-1).astype(dtype).reshape(-1, 2)
    return made


def followed(fates, t, e):
    """The end of a step: `on`, a `cut`, or the `end` of an episode."""
    fate, last = fates[e][t], t == len(fates[e]) - 1
    return {"t": "end", "c": "cut"}.get(fate, "cut" if last else "on")


def followed_all(fates):
    return np.array([[followed(fates, t, e) for e in range(len(fates))] for t in range(len(fates[0]))])


def _each(marks, kind, value_of, width, dtype):
    found = np.empty((len(kind.agents), *marks.shape, width), dtype)
    for row, agent in enumerate(kind.agents):
        for at in np.ndindex(marks.shape):
            found[(row, *at)] = value_of(marks[at], agent, width)
    return found


def objects(request):
    """The objects of tasks, with the trajectories of a task of whole rounds where later rounds learn from them."""
    refs = simulated.objects(request)
    if isinstance(request, WholeTask) and request.replayed_steps:
        key = keys.object_key(request.address.output, "played")
        refs = {"played": codec.reference(key, key.encode()), **refs}
    return refs


def well(function, request):
    """Make a script with successful attempts that store the data of their rollouts."""
    return [simulated.answered(function, request, stored=objects)]
