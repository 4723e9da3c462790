"""SMAC's and SMACv2's published interface over a battle in plain Python, including its peculiarities.

Units stand on a line and reach `REACH` steps. Allies act first: 0 no-op (the dead), 1 stop, 2 back, 3 forward. Actions
4 and 5 are impossible, and 6 + e shoots enemy e. Then every living enemy hits the first living ally in reach. All do
damage 1.
"""

import random
import types

import numpy as np

REACH = 3
MAPS = {
    # All units start in reach, with the same health in every episode, so that results can be computed by hand.
    "duel": {"n_agents": 2, "n_enemies": 1, "limit": 5, "start": (0, 0), "health": (2, 3)},
    "3m": {"n_agents": 3, "n_enemies": 3, "limit": 12, "start": (0, 6), "health": (2, 2)},
    **{f"10gen_{race}": {"limit": 12, "start": (0, 6), "health": (2, 2)} for race in ("terran", "protoss", "zerg")},
}


class SC2LaunchError(Exception):
    """As in `pysc2.lib.sc_process`."""


class CannotResetException(Exception):
    """As in `smacv2.env.starcraft2.starcraft2`."""


class World:
    """State shared by a test's games: how StarCraft is installed, and the processes that were started."""

    def __init__(self):
        self.running = set()
        self.launches = 0
        self.built = []
        self.launch_error = None
        self.close_error = None
        self.crash_at = None
        self.spoil = {}


class StarCraft2Env:
    """SMAC's environment. `world` is set by `modules`."""

    world: World

    def __init__(
        self,
        map_name="8m",
        seed=None,
        difficulty="7",
        continuing_episode=False,
        obs_timestep_number=False,
        obs_own_pos=False,
        use_unit_ranges=False,
        min_attack_range=2,
        capability_config=None,
    ):
        self.world.built.append({key: value for key, value in locals().items() if key != "self"})
        figures = MAPS[map_name]
        team = (capability_config or {}).get("team_gen", figures if capability_config is None else {})
        self.n_agents = team.get("n_units", figures.get("n_agents"))
        self.n_enemies = team.get("n_enemies", figures.get("n_enemies"))
        self.n_actions = 6 + self.n_enemies
        self.episode_limit, self._start, self._health = figures["limit"], figures["start"], figures["health"]
        self._continuing, self._timestep, self._seed = continuing_episode, obs_timestep_number, seed
        self._process = None
        self._episode_count = 0
        self.force_restarts = 0
        self.max_reward = 10 * self.n_enemies + 200 + self._health[1] * self.n_enemies

    def get_env_info(self):
        return {
            "state_shape": self.n_agents + self.n_enemies,
            "obs_shape": 2 + self.n_enemies + self._timestep,
            "n_actions": self.n_actions,
            "n_agents": self.n_agents,
            "episode_limit": self.episode_limit,
        }

    def _launch(self):
        if self.world.launch_error is not None:
            raise self.world.launch_error
        self.world.launches += 1
        # An existing process is forgotten, not ended.
        self._process = self.world.launches
        self.world.running.add(self._process)
        self._draws = random.Random(self._seed)

    def full_restart(self):
        self.world.running.discard(self._process)
        self._launch()
        self.force_restarts += 1

    def reset(self, episode_config=None):
        if self._episode_count == 0:
            self._launch()
        self._steps = 0
        starts = (episode_config or {}).get("ally_start_positions", {}).get("item")
        if starts is None:
            starts = [self._draws.randint(*self._start) for _ in range(self.n_agents)]
        self._away = list(starts)
        self._allies = [self._health[0]] * self.n_agents
        self._enemies = [self._health[1]] * self.n_enemies
        return self.get_obs(), self.get_state()

    def step(self, actions):
        for agent, action in enumerate(actions):
            assert type(action) is int
            assert self.get_avail_agent_actions(agent)[action] == 1, f"Agent {agent} cannot perform action {action}"
        if self.world.crash_at is not None and self._steps + 1 == self.world.crash_at:
            self.full_restart()
            return 0, True, {}
        self._steps += 1
        before = list(self._enemies)
        self._fight(actions)
        killed = sum(was > 0 >= now for was, now in zip(before, self._enemies, strict=True))
        reward = sum(before) - sum(self._enemies) + 10 * killed
        terminated, info = False, {"battle_won": False, "dead_allies": self._allies.count(0)}
        if not any(self._enemies) or not any(self._allies):
            terminated = True
            if any(self._allies):
                info["battle_won"] = True
                reward += 200
        elif self._steps >= self.episode_limit:
            terminated = True
            if self._continuing:
                info["episode_limit"] = True
        self._episode_count += terminated
        return reward / (self.max_reward / 20), terminated, info

    def _fight(self, actions):
        for agent, action in enumerate(actions):
            self._away[agent] += {2: 1, 3: -1}.get(action, 0)
            if action >= 6 and self._enemies[action - 6] > 0:
                self._enemies[action - 6] -= 1
        for health in self._enemies:
            targets = [i for i, away in enumerate(self._away) if self._allies[i] > 0 and away <= REACH]
            if health > 0 and targets:
                self._allies[targets[0]] -= 1

    def get_avail_agent_actions(self, agent):
        if self._allies[agent] <= 0:
            return [1] + [0] * (self.n_actions - 1)
        shots = [int(health > 0 and self._away[agent] <= REACH) for health in self._enemies]
        return [0, 1, int(self._away[agent] < 9), int(self._away[agent] > 0), 0, 0, *shots]

    def get_avail_actions(self):
        return self.world.spoil.get("get_avail_actions") or [
            self.get_avail_agent_actions(agent) for agent in range(self.n_agents)
        ]

    def get_obs_agent(self, agent):
        seen = np.zeros(2 + self.n_enemies, dtype=np.float32)
        if self._allies[agent] > 0:
            seen[:] = [1 + self._away[agent], self._allies[agent], *self._enemies]
        # The dead see the time, too, and numpy makes it float64.
        return np.append(seen, self._steps / self.episode_limit) if self._timestep else seen

    def get_obs(self):
        return self.world.spoil.get("get_obs") or [self.get_obs_agent(agent) for agent in range(self.n_agents)]

    def get_state(self):
        return np.array(self._allies + self._enemies, dtype=np.float32)

    def close(self):
        if self._process is not None:
            self.world.running.discard(self._process)
            if self.world.close_error is not None:
                raise self.world.close_error
        self._process = None


class StartPositions:
    """A distribution of SMACv2: its generator is seeded by the operating system."""

    def __init__(self, config):
        self.config = config
        self.rng = np.random.default_rng()

    def generate(self):
        item = self.rng.integers(0, 7, size=self.config["n_units"]).tolist()
        return {"ally_start_positions": {"item": item, "id": 0}}


class EitherPositions:
    def __init__(self, config):
        self.rng = np.random.default_rng()
        self.first, self.second = StartPositions(config), StartPositions(config)

    def generate(self):
        return (self.first if self.rng.random() > 0.5 else self.second).generate()


class Teams:
    """A distribution that also draws from the process's generator."""

    def __init__(self, config):
        self.units = list(config["unit_types"])

    def generate(self):
        random.shuffle(self.units)
        return {"team_gen": {"ally_team": self.units, "enemy_team": self.units, "id": 0}}


class StarCraftCapabilityEnvWrapper:
    """SMACv2's wrapper, which writes into its configuration and returns nothing from a reset that it repeats."""

    def __init__(self, **keywords):
        self.distribution_config = keywords["capability_config"]
        self.env_key_to_distribution_map = {}
        for key, config in self.distribution_config.items():
            if key in ("n_units", "n_enemies"):
                continue
            config |= {"env_key": key} | {name: self.distribution_config[name] for name in ("n_units", "n_enemies")}
            made = {"weighted_teams": Teams, "surrounded_and_reflect": EitherPositions}[config["dist_type"]]
            self.env_key_to_distribution_map[key] = made(config)
        self.env = SMACv2Env(**keywords)

    def reset(self):
        try:
            config = {}
            for distribution in self.env_key_to_distribution_map.values():
                config |= distribution.generate()
            return self.env.reset(config)
        except CannotResetException:
            self.reset()

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, actions):
        return self.env.step(actions)


class SMACv2Env(StarCraft2Env):
    """SMACv2's environment: visibility depends on the process's two generators."""

    def reset(self, episode_config=None):
        if episode_config["ally_start_positions"]["item"][0] == 6:
            raise CannotResetException("waited for units to spawn and they didn't")
        return super().reset(episode_config)

    def get_obs(self):
        order = list(range(self.n_agents))
        random.shuffle(order)
        seen = [None] * self.n_agents
        for agent in order:
            seen[agent] = self.get_obs_agent(agent) * np.float32(np.random.rand() < 0.5)
        return seen


def modules(world):
    StarCraft2Env.world = world
    made = {}
    for package, environment in (("smac", StarCraft2Env), ("smacv2", SMACv2Env)):
        for path in ("", ".env", ".env.starcraft2", ".env.starcraft2.maps", ".env.starcraft2.maps.smac_maps"):
            made[package + path] = types.ModuleType(package + path)
        made[f"{package}.env"].StarCraft2Env = environment
        made[f"{package}.env.starcraft2.maps.smac_maps"].get_smac_map_registry = lambda: MAPS
    made["smacv2.env.starcraft2.wrapper"] = types.ModuleType("smacv2.env.starcraft2.wrapper")
    made["smacv2.env.starcraft2.wrapper"].StarCraftCapabilityEnvWrapper = StarCraftCapabilityEnvWrapper
    return made
