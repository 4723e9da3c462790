"""Every environment passes the suite, and the suite names a broken one's fault."""

import dataclasses

import msgspec
import numpy as np
import pytest
from many_spaces import DEEDS
from relays import relay

from marless.functions.environments import registry
from marless.functions.environments.base import AgentClass, EnvTask
from marless.testing.environments import check

TASKS = [
    EnvTask(name="toy/signal"),
    EnvTask(name="toy/signal", agents=4, options={"mixed": True, "signals": 2}),
    EnvTask(name="toy/signal", agents=3, options={"masked": True, "elimination": True, "horizon": 6}),
    EnvTask(name="mpe/simple"),
    EnvTask(name="mpe/simple_adversary"),
    EnvTask(name="mpe/simple_crypto"),
    EnvTask(name="mpe/simple_push"),
    EnvTask(name="mpe/simple_reference"),
    EnvTask(name="mpe/simple_speaker_listener"),
    EnvTask(name="mpe/simple_spread"),
    EnvTask(name="mpe/simple_tag"),
    EnvTask(name="mpe/simple_world_comm"),
    EnvTask(name="mpe/simple_crypto", options={"continuous_actions": True}),
    EnvTask(name="mpe/simple_spread", options={"continuous_actions": True}),
    EnvTask(name="mpe/simple_world_comm", options={"continuous_actions": True}),
    EnvTask(name="roles/apprentices"),
    EnvTask(name="roles/blind_spread"),
    EnvTask(name="toy/dial"),
    EnvTask(name="pettingzoo:mpe2.simple_spread_v3:parallel_env", options={"max_cycles": 6}),
    EnvTask(name="pettingzoo:mpe2.simple_adversary_v3:parallel_env", options={"max_cycles": 6}),
    EnvTask(name="pettingzoo:mpe2.simple_speaker_listener_v4:parallel_env", options={"max_cycles": 6}),
    relay("Speaking", count=5),
    relay(masked=True, dying=False, horizon=3),
    EnvTask(name="toy/signal", agents=3, options={"elimination": True, "mixed": True}, last_action=True),
    EnvTask(name="mpe/simple_crypto", options={"continuous_actions": True}, last_action=True),
]


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_an_environment_keeps_every_promise(task):
    check(lambda num_envs: registry.make(task, num_envs))


class Broken:
    """The toy with one violation of the protocol: `change_seen` and `change_step` replace its returned values."""

    def __init__(self, num_envs, change_seen=None, change_step=None, options=None, spec=None):
        task = EnvTask(name="toy/signal", options={"horizon": 4} | (options or {}))
        self.inner = registry.make(task, num_envs)
        self.spec = msgspec.structs.replace(self.inner.spec, **(spec or {}))
        self.num_envs = num_envs
        self.change_seen, self.change_step = change_seen, change_step
        self.closed = 0

    def reset(self, rng):
        seen = self.inner.reset(rng)
        return self.change_seen(seen) if self.change_seen else seen

    def step(self, actions):
        step = self.inner.step(actions)
        if self.change_seen:
            step = dataclasses.replace(step, observation=self.change_seen(step.observation))
        return self.change_step(step) if self.change_step else step

    def close(self):
        self.closed += 1


def seen(**changes):
    return lambda seen: dataclasses.replace(seen, **{name: change(seen) for name, change in changes.items()})


def stepped(**changes):
    return lambda step: dataclasses.replace(step, **{name: change(step) for name, change in changes.items()})


def final(**changes):
    return stepped(final=lambda step: step.final and seen(**changes)(step.final))


ELIMINATION = {"elimination": True, "signals": 3}


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"spec": {"agents": ("a", "a")}}, "agents are not one or more different names"),
        ({"spec": {"classes": (AgentClass("a", (1, 0), 3, 3),)}}, "classes do not hold every agent once, in ascending"),
        ({"spec": {"classes": (AgentClass("a", (0,), 3, 3),)}}, "classes do not hold every agent once"),
        ({"spec": {"horizon": 0}}, "horizon are not positive"),
        ({"spec": {"horizon": 3}}, "an episode is longer than spec.horizon"),
        ({"spec": {"masked": True}}, "masks are given although"),
        ({"spec": {"state_size": 0}}, "a state is given although"),
        (
            {"change_seen": seen(values=lambda s: (s.values[0][:, :, :2],))},
            r"the observation of class 'signal3' is an array \(1, 2, 2\) of float32, not an array \(1, 2, 3\)",
        ),
        ({"change_seen": seen(values=lambda s: (s.values[0].astype(float),))}, "of float64, not .* of float32"),
        ({"change_seen": seen(values=lambda s: (np.full_like(s.values[0], np.inf),))}, "'signal3' is not finite"),
        ({"change_seen": seen(values=lambda s: ())}, "does not have one array per class"),
        ({"change_seen": seen(state=lambda s: s.state.tolist())}, "the state is list, not an array"),
        (
            {"change_seen": seen(masks=lambda s: (s.masks[0] & False,)), "options": {"masked": True}},
            "a mask allows no action",
        ),
        ({"change_seen": seen(alive=lambda s: s.alive & False)}, "gone sees something other than zeros"),
        (
            {"change_seen": seen(values=lambda s: (s.values[0] * 0,), alive=lambda s: s.alive & False)},
            "starts without all agents alive",
        ),
        (
            {"change_step": stepped(rewards=lambda s: s.rewards + 1), "options": ELIMINATION},
            "before the step has a rew",
        ),
        ({"change_step": stepped(rewards=lambda s: s.rewards * np.nan)}, "rewards is not finite"),
        (
            {"change_step": stepped(truncated=lambda s: s.truncated & False)},
            "ended is not 'truncated, or no agent left'",
        ),
        ({"change_step": stepped(terminated=lambda s: s.terminated | True), "options": ELIMINATION}, "ended is not"),
        ({"change_step": stepped(final=lambda s: None)}, "final is given although no environment ended, or"),
        ({"change_step": final(alive=lambda s: ~s.alive, values=lambda s: (s.values[0] * 0,))}, "alive is not"),
        ({"change_step": stepped(env_metrics=lambda s: {"x": s.rewards})}, r"env metric 'x' is an array \(1, 2\)"),
    ],
)
def test_a_broken_promise_is_named(broken, message):
    with pytest.raises(AssertionError, match=message):
        check(lambda num_envs: Broken(num_envs, **broken))


class Painted(Broken):
    def __init__(self, num_envs, kind=None, does="several choices", masked=False, sides=(), **changes):
        super().__init__(num_envs, **changes)
        options = {"does": does, "masked": masked, "mask_size": DEEDS[does].nvec.sum() if masked else 0}
        self.inner = registry.make(EnvTask(name="pettingzoo:many_spaces:Studio", options=options), num_envs)
        classes = tuple(msgspec.structs.replace(own, **(kind or {})) for own in self.inner.spec.classes)
        self.spec = msgspec.structs.replace(self.inner.spec, classes=classes, sides=sides)


def masked(place, allowed):
    def change(seen):
        masks = np.ones_like(seen.masks[0])
        masks[..., place] = allowed
        return (masks,)

    return seen(masks=change)


@pytest.mark.parametrize(
    ("painted", "message"),
    [
        ({"kind": {"branches": (3, 3)}}, "choices of class 'artist' are not positive, or actions is not their sum"),
        ({"kind": {"branches": (5, 0)}}, "choices of class 'artist' are not positive"),
        ({"kind": {"low": (0.0,) * 5, "high": (1.0,) * 5}}, "class 'artist' is not of one kind"),
        ({"does": "numbers", "kind": {"low": (0.0,)}}, "bounds of class 'artist' are not .* one pair per action"),
        ({"does": "numbers", "kind": {"high": ()}}, "bounds of class 'artist' are not .* one pair per action"),
        ({"does": "numbers", "kind": {"low": (-np.inf, 0.0)}}, "bounds of class 'artist' are not finite"),
        ({"does": "numbers", "kind": {"low": (1.5, 0.0)}}, "of class 'artist' are not finite in float32, not in ord"),
        ({"does": "numbers", "kind": {"high": (1.0, 1e39)}}, "of class 'artist' are not finite in float32, not in ord"),
        ({"sides": (0,)}, "sides is neither empty nor one of the numbers"),
        ({"sides": (0, 2)}, "sides is neither empty nor one of the numbers"),
        ({"sides": (0, -1)}, "sides is neither empty nor one of the numbers"),
        ({"sides": (0, 0)}, "all agents are on one side"),
        ({"masked": True, "change_seen": masked(slice(3, 5), False)}, "none of one of several choices"),
        (
            {"masked": True, "change_seen": seen(masks=lambda s: (s.masks[0][..., :4],))},
            r"an array \(1, 2, 5\) of bool",
        ),
    ],
)
def test_broken_promise_about_spaces_or_sides_is_named(painted, message):
    with pytest.raises(AssertionError, match=message):
        check(lambda num_envs: Painted(num_envs, **painted))


def test_two_sides_and_partial_mask_are_valid():
    check(lambda num_envs: Painted(num_envs, sides=(1, 0)))
    check(lambda num_envs: Painted(num_envs, masked=True, change_seen=masked(slice(0, 2), False)))


class Allowing(Painted):
    def __init__(self, num_envs, forbidding):
        change = seen(masks=lambda s: (np.full((len(s.alive), 2, 2), [not forbidding, True]),))
        last = stepped(final=lambda step: step.final and change(step.final))
        super().__init__(num_envs, does="numbers", change_seen=change, change_step=last)
        self.spec = msgspec.structs.replace(self.spec, masked=True)


def test_numbers_may_not_be_forbidden():
    check(lambda num_envs: Allowing(num_envs, forbidding=False))
    with pytest.raises(AssertionError, match="a mask forbids numbers"):
        check(lambda num_envs: Allowing(num_envs, forbidding=True))


class Strict(Painted):
    given = None

    def step(self, actions):
        (kind,), (acted,) = self.spec.classes, actions
        self.given.append(acted)
        if kind.low:
            assert acted.dtype == np.float32 and acted.shape == (self.num_envs, 2, 2)
            assert (acted >= np.float32(kind.low)).all() and (acted <= np.float32(kind.high)).all()
        else:
            assert acted.dtype == np.int64 and acted.shape == (self.num_envs, 2, 2)
            assert (acted >= 0).all() and (acted < kind.branches).all()
        return super().step(actions)


@pytest.mark.parametrize(
    ("does", "values"), [("several choices", {0, 1, 2}), ("numbers", {-1.0, 1.0, 0.0, float(np.float32(0.1))})]
)
def test_random_play_does_everything_allowed_and_nothing_else(does, values):
    Strict.given = []
    check(lambda num_envs: Strict(num_envs, does=does))
    assert values <= {*np.unique(np.concatenate([acted.reshape(-1) for acted in Strict.given])).tolist()}


def test_an_agent_that_terminates_twice_is_named():
    def revive(step):
        gone = ~step.observation.alive & ~step.ended[:, None]
        return dataclasses.replace(step, terminated=step.terminated | gone)

    with pytest.raises(AssertionError, match="gone before the step terminates"):
        check(lambda num_envs: Broken(num_envs, change_step=revive, options={"elimination": True, "horizon": 9}))


def test_a_wrong_number_of_environments_is_named():
    with pytest.raises(AssertionError, match="num_envs is not the number"):
        check(lambda num_envs: Broken(num_envs + 1))


def test_arrays_that_are_reused_are_named():
    kept = {}

    def reuse(seen):
        array = kept.setdefault(seen.alive.shape, np.empty_like(seen.values[0]))
        array[:] = seen.values[0]
        return dataclasses.replace(seen, values=(array,))

    with pytest.raises(AssertionError, match="an earlier call returned were overwritten"):
        check(lambda num_envs: Broken(num_envs, change_seen=reuse))


class Sticky(Broken):
    resets = 0

    def reset(self, rng):
        self.resets += 1
        return seen(values=lambda s: (s.values[0] * np.float32(self.resets),))(super().reset(rng))


class Fixed(Broken):
    def reset(self, rng):
        super().reset(rng)
        return super().reset(np.random.default_rng(0))


class Coupled(Broken):
    """Pays by the actions of environment 0's agents."""

    def step(self, actions):
        return stepped(rewards=lambda s: s.rewards + actions[0][0, 0])(super().step(actions))


class Meddling(Broken):
    def step(self, actions):
        step = super().step(actions)
        actions[0][:] = 0
        return step


class Once(Broken):
    def close(self):
        super().close()
        if self.closed == 2:
            raise AssertionError("closed twice")


class Resumed(Broken):
    """It restarts instead of continuing. In another place it restarts differently."""

    here = False

    def reset(self, rng):
        self.here = True
        return super().reset(rng)

    def save(self):
        return {"nothing": np.zeros(())}

    def resume(self, saved, rng):
        return super().reset(np.random.default_rng(self.here))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Resumed, "resume went on with other bytes"),
        (Sticky, "other bytes after earlier episodes"),
        (Fixed, "another generator gave the same first observations"),
        (Coupled, "the actions in environment 0 changed what other environments gave"),
        (Meddling, "step changed the actions"),
        (Once, "closed twice"),
    ],
)
def test_a_habit_that_breaks_a_promise_is_named(kind, message):
    with pytest.raises(AssertionError, match=message):
        check(kind)


def test_environment_may_declare_fixed_coupled_or_unrepeatable():
    check(Fixed, random_starts=False)
    check(Coupled, independent_envs=False)
    check(Sticky, repeatable=False)
    with pytest.raises(AssertionError, match="step changed the actions"):
        check(Meddling, repeatable=False)


def test_two_environments_that_differ_are_named():
    made = []

    def differing(num_envs):
        made.append(num_envs)
        scale = np.float32(len(made))
        return Broken(num_envs, change_seen=seen(values=lambda s: (s.values[0] * scale,)))

    with pytest.raises(AssertionError, match="other bytes in a new environment"):
        check(differing)
