"""Battles in C against JaxMARL 0.2.0: step by step from the same states, and in distribution over whole battles.

Random numbers differ. So a step is compared where the enemies chose the same actions, without the cooldowns of units
that fired. Zerglings may fire twice in a step, which depends on their cooldowns, and are compared only until they fire.
"""

import inspect
from importlib.util import find_spec

import msgspec
import numpy as np
import pytest

from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.environments.games.battles import MAPS, BattleOptions

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(find_spec("jax") is None or find_spec("jaxmarl") is None, reason="JaxMARL is not installed"),
]
ENVS, STEPS, TOLERANCE = 64, 60, 1e-5
UP, RIGHT, DOWN, LEFT, STOP, FIRST_ENEMY = range(6)
ZERGLING = 4
OPTIONS = {
    "3m": {},
    "2s3z": {"attack_mode": "random", "see_enemy_actions": False},
    "5m_vs_6m": {"observation_type": "conic"},
    "8m": {"use_self_play_reward": True, "won_battle_bonus": 3.0},
    "3s5z": {"walls_cause_death": False, "map_width": 20, "map_height": 24},
    "6h_vs_8z": {"enemy_shoots": False, "max_steps": 30},
    "smacv2_5_units": {"world_steps_per_env_step": 4},
}


class Pair:
    """The battles of JaxMARL and of C, which play from the states of JaxMARL's."""

    def __init__(self, name, options):
        self.theirs, self.ours = (
            registry.make(EnvTask(name=f"{family}smax/{name}", options=options), ENVS) for family in ("jaxmarl:", "")
        )
        self.allies = len(self.theirs.spec.agents)
        self.seen = self.theirs.reset(np.random.default_rng(5))
        self.ours.reset(np.random.default_rng(6))
        self.units = self.theirs.spec.state_size // 12
        self.theirs.before_reset = lambda: self.before.append(self.theirs._battles)
        self.ours.before_reset = lambda: self.our_before.append(self.ours.save())
        self.take()

    def take(self):
        """Copies the state of JaxMARL's battles to C."""
        for name, array in state_of(self.theirs._battles, self.allies).items():
            self.ours.arrays[name][:, : self.units] = array
        script = self.theirs._battles.enemy_policy_state
        goals, target = np.asarray(script.default_target), np.asarray(script.last_attacked_enemy)
        enemies = np.s_[:, self.allies : self.units]
        first = (goals == 0).all(axis=2)
        for axis, (name, size) in enumerate((("x", "map_width"), ("y", "map_height"))):
            opposite = getattr(self.ours._options, size) - self.ours.arrays[name][enemies]
            self.ours.arrays[f"goal_{name}"][enemies] = np.where(first, opposite, goals[..., axis])
        self.ours.arrays["targets"][enemies] = np.where(target < 0, -1, self.allies - 1 - target)
        self.ours.arrays["clock"][:] = np.asarray(self.theirs._battles.state.step)

    def step(self, actions):
        """The steps of both, and the states after them, before resets."""
        self.before, self.our_before = [], []
        step, our_step = self.theirs.step((actions,)), self.ours.step((actions,))
        battles = self.before[0] if self.before else self.theirs._battles
        saved = self.our_before[0] if self.our_before else self.ours.save()
        self.seen = step.observation
        after = state_of(battles, self.allies)
        return step, our_step, after, {name: saved[name][:, : self.units] for name in after}


def state_of(battles, allies):
    """JaxMARL's state by the names of C."""
    state = battles.state
    movement, attack = np.asarray(state.prev_movement_actions), np.asarray(state.prev_attack_actions)
    order = np.full(attack.shape, STOP)
    for move, (axis, sign) in {UP: (1, 1), RIGHT: (0, 1), DOWN: (1, -1), LEFT: (0, -1)}.items():
        order[movement[..., axis] * sign > 0.5] = move
    positions = np.asarray(state.unit_positions)
    return {
        "x": positions[..., 0],
        "y": positions[..., 1],
        "health": np.asarray(state.unit_health),
        "cooldown": np.asarray(state.unit_weapon_cooldowns),
        "kinds": np.asarray(state.unit_types),
        "orders": np.where(attack > 0, attack, order),
    }


def fighting(seen, rng):
    """Mostly attacks where they are legal."""
    masks = seen.masks[0]
    return (rng.random(masks.shape) * masks * ([1] * FIRST_ENEMY + [9] * (masks.shape[2] - FIRST_ENEMY))).argmax(axis=2)


def moving(seen, rng):
    masks = seen.masks[0]
    return (rng.random(masks.shape) * masks).argmax(axis=2)


def to_the_wall(seen, rng):
    return np.where(seen.masks[0][..., LEFT], LEFT, STOP)


@pytest.mark.parametrize("act", [fighting, moving, to_the_wall])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_step_from_the_same_state_is_jaxmarls(name, act):
    pair, rng = Pair(name, OPTIONS[name]), np.random.default_rng(7)
    compared, enemies = 0, slice(pair.allies, None)
    for _ in range(STEPS):
        before = {
            array: values[:, : pair.units].copy() for array, values in pair.ours.arrays.items() if values.ndim > 1
        }
        require_same_look(pair)
        step, our_step, theirs, ours = pair.step(act(pair.seen, rng))
        living = before["health"] > 0
        require_same_script(before, living, theirs, ours, pair.allies)
        fired = theirs["cooldown"] > before["cooldown"]
        rows = ((theirs["orders"] == ours["orders"]) | ~living)[:, enemies].all(axis=1)
        rows &= ~(living & (before["kinds"] == ZERGLING) & fired).any(axis=1)
        for array in ("x", "y", "health"):
            np.testing.assert_allclose(ours[array][rows], theirs[array][rows], atol=TOLERANCE)
        resting = rows[:, None] & living & ~fired
        np.testing.assert_allclose(ours["cooldown"][resting], theirs["cooldown"][resting], atol=TOLERANCE)
        assert ((ours["cooldown"] > before["cooldown"]) == fired)[rows[:, None] & living].all()
        for result in ("rewards", "terminated", "truncated", "ended"):
            expected = getattr(step, result)[rows]
            np.testing.assert_allclose(getattr(our_step, result)[rows], expected, atol=TOLERANCE)
        if rows[step.ended].any():
            won = rows & step.ended
            np.testing.assert_array_equal(our_step.env_metrics["win"][won], step.env_metrics["win"][won])
        compared += rows.sum()
        pair.take()
    assert compared > STEPS * ENVS / 8  # eight enemies that follow rarely choose the same


def require_same_look(pair):
    """Observations, masks and the global state of the same state."""
    seen, look = pair.ours.resume(pair.ours.save(), np.random.default_rng(0)), pair.seen
    np.testing.assert_allclose(seen.values[0], look.values[0], atol=TOLERANCE)
    np.testing.assert_array_equal(seen.masks[0], look.masks[0])
    np.testing.assert_allclose(seen.state, look.state, atol=TOLERANCE)
    np.testing.assert_array_equal(seen.alive, look.alive)


def require_same_script(before, living, theirs, ours, allies):
    """Enemies choose the same, or move towards different allies if they can see several or shoot at different ones."""
    differ = ((theirs["orders"] != ours["orders"]) & living)[:, allies:]
    for env, enemy in zip(*np.nonzero(differ), strict=True):
        orders = {orders["orders"][env, allies + enemy] for orders in (theirs, ours)}
        x, y = (before[axis][env, :allies] - before[axis][env, allies + enemy] for axis in "xy")
        alive = living[env, :allies]
        if min(orders) >= FIRST_ENEMY:
            targets = [allies - 1 - (order - FIRST_ENEMY) for order in orders]
            assert alive[targets].all() and np.hypot(x, y)[targets].max() <= 6
            continue
        leads = np.stack([y, x, -y, -x])[:, alive & (np.hypot(x, y) <= 10)].argmax(axis=0)
        assert orders <= {*leads.tolist()}


def test_options_and_maps_are_jaxmarls():
    registry.spec(EnvTask(name="jaxmarl:smax/3m"))  # configures jax
    from jaxmarl.environments import smax

    own = {
        name: parameter.default
        for kind in (smax.SMAX, smax.HeuristicEnemySMAX)
        for name, parameter in inspect.signature(kind.__init__).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    # Parameters that are lists, that the map sets, and that the task sets.
    left = {name for name in own if name.startswith(("unit_type_", "smacv2_", "num_"))} | {"scenario", "action_type"}
    ours = msgspec.structs.asdict(BattleOptions())
    assert {name: own[name] for name in own.keys() - left} == {
        name: ours[name] for name in ours.keys() - {"earlier_rules"}
    }
    assert {*MAPS} == {*smax.smax_env.MAP_NAME_TO_SCENARIO}


@pytest.mark.parametrize(("name", "act"), [("3m", fighting), ("3s5z", fighting), ("smacv2_5_units", moving)])
def test_whole_battles_are_jaxmarls_in_distribution(name, act):
    samples = []
    for family, seed in (("jaxmarl:smax/", 1), ("smax/", 2)):
        environment, rng = registry.make(EnvTask(name=f"{family}{name}"), ENVS), np.random.default_rng(seed)
        seen, episodes = environment.reset(rng), []
        returns, lengths = np.zeros(ENVS), np.zeros(ENVS)
        for _ in range(900):
            step = environment.step((act(seen, rng),))
            seen, returns, lengths = step.observation, returns + step.rewards.sum(axis=1), lengths + 1
            for env in np.flatnonzero(step.ended):
                episodes.append((returns[env], lengths[env], step.env_metrics["win"][env], step.truncated[env]))
            returns[step.ended] = lengths[step.ended] = 0
        samples.append(np.array(episodes, float))
    means, errors = zip(*((each.mean(axis=0), each.var(axis=0) / len(each)) for each in samples), strict=True)
    assert (np.abs(means[0] - means[1]) <= 4 * np.sqrt(errors[0] + errors[1])).all()
