"""Games in C with any options and actions: every step is played or refused."""

import numpy as np
from built_kernels import needs_kernels
from compiled_games import TASKS, made
from fuzzed_arrays import fuzzed, is_called
from hypothesis import given
from hypothesis import strategies as st

from marless.functions.environments.base import EnvTask
from marless.functions.environments.games.battles import MAPS

pytestmark = needs_kernels
BATTLES = st.fixed_dictionaries(
    {},
    optional={
        "attack_mode": st.sampled_from(["closest", "random"]),
        "observation_type": st.sampled_from(["unit_list", "conic"]),
        **dict.fromkeys(("map_width", "map_height", "max_steps"), st.integers(1, 40)),
        "time_per_step": st.sampled_from([0.01, 0.0625, 3.0]),
        **dict.fromkeys(("walls_cause_death", "earlier_rules"), st.booleans()),
    },
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "players": st.integers(1, 9),
        "max_num_food": st.integers(1, 12),
        "sight": st.integers(0, 9),
        "horizon": st.integers(1, 12),
        **dict.fromkeys(("force_coop", "grid_observation", "observe_agent_levels"), st.booleans()),
    },
)
HALLS = st.fixed_dictionaries(
    {},
    optional={
        "layout": st.lists(st.text("gx.", min_size=4, max_size=4), min_size=1, max_size=6).map("\n".join),
        "n_agents": st.integers(1, 24),
        "request_queue_size": st.integers(0, 9),
        "sensor_range": st.integers(1, 4),
        "horizon": st.integers(1, 12),
        "observation_type": st.sampled_from(["flattened", "image", "image_dict"]),
    },
)


def play(environment, draw):
    choices, shape = environment.spec.classes[0].actions, (environment.num_envs, len(environment.spec.agents))
    rng, fault = np.random.default_rng(draw(st.integers(0, 2**32))), draw(st.integers(0, 9)) == 0
    environment.reset(rng)
    for _ in range(draw(st.integers(1, 20))):
        step = is_called(environment.step, (rng.integers(-fault, choices + fault, size=shape),))
        assert step is None or np.isfinite(step.observation.values[0]).all()
        assert fault or step is not None


@fuzzed
@given(st.data(), st.sampled_from(sorted(TASKS)), st.integers(1, 5))
def test_any_game_is_played_or_refused(data, task, num_envs):
    play(made(TASKS[task], num_envs), data.draw)


@fuzzed
@given(st.data(), st.sampled_from(MAPS), BATTLES, st.integers(1, 5))
def test_battles_are_played_with_any_options(data, name, options, num_envs):
    play(made(EnvTask(name=f"smax/{name}", options=options), num_envs), data.draw)


@fuzzed
@given(st.data(), st.sampled_from(["3x3", "3x9", "8x5"]), FIELDS, st.integers(1, 5))
def test_foraging_is_played_or_refused_with_any_options(data, size, options, num_envs):
    environment = is_called(made, EnvTask(name=f"lbf/{size}-2p-1f", options=options), num_envs)
    if environment is not None:
        play(environment, data.draw)


@fuzzed
@given(st.data(), HALLS, st.integers(1, 5))
def test_warehouses_are_played_or_refused_with_any_options(data, options, num_envs):
    environment = is_called(made, EnvTask(name="rware/tiny-2ag", options=options), num_envs)
    if environment is not None:
        play(environment, data.draw)
