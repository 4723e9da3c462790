"""PPO with a policy for each agent, as RLlib's new API has it: `python rllib_script.py [STEPS [RETURN [SEED]]]`, with
`ray[rllib]`. It ends after the steps, or when an iteration reaches the return.

Prints a line of JSON after each iteration: the steps so far, the return of its episodes (the sum over agents) and the
seconds of training. Then it stores a checkpoint. It joins the cluster at RAY_ADDRESS if there is one.
"""

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module import MultiRLModuleSpec, RLModuleSpec
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env
from spread_team import make_environment, perceptron

AGENTS = ("agent_0", "agent_1", "agent_2")


class TeamModule(TorchRLModule, ValueFunctionAPI):
    """A policy and a critic of the user's networks."""

    def setup(self) -> None:
        """Makes both."""
        width = self.observation_space.shape[0]
        self.policy, self.value = perceptron(width, int(self.action_space.n)), perceptron(width, 1, 1.0)

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {Columns.ACTION_DIST_INPUTS: self.policy(batch[Columns.OBS])}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Any:
        """The critic."""
        return self.value(batch[Columns.OBS]).squeeze(-1)


def algorithm(seed: int) -> Any:
    """PPO on two runners with 32 environments each. A return is the mean of an iteration's 64 episodes."""
    register_env("spread", lambda _: ParallelPettingZooEnv(make_environment()))
    return (
        PPOConfig()
        .environment("spread")
        .multi_agent(policies=set(AGENTS), policy_mapping_fn=lambda agent, *_, **__: agent)
        .rl_module(
            rl_module_spec=MultiRLModuleSpec(rl_module_specs={agent: RLModuleSpec(TeamModule) for agent in AGENTS})
        )
        .env_runners(num_env_runners=2, num_envs_per_env_runner=32)
        .training(
            train_batch_size_per_learner=1600,
            minibatch_size=200,
            num_epochs=4,
            lr=1e-3,
            gamma=0.9,
            lambda_=0.95,
            clip_param=0.2,
            entropy_coeff=0.01,
        )
        .reporting(metrics_num_episodes_for_smoothing=64)
        .debugging(seed=seed)
        .build_algo()
    )


def main(steps: float = 48_000, target: float = math.inf, seed: float = 1) -> None:
    """Trains for so many environment steps at most, until a mean return of `target`."""
    ray.init(include_dashboard=False, log_to_driver=False)
    ppo, began, sampled, team = algorithm(int(seed)), time.perf_counter(), 0, None
    while sampled < steps and (team is None or team < target):
        result = ppo.train()
        sampled = int(result["num_env_steps_sampled_lifetime"])
        seconds, team = time.perf_counter() - began, result["env_runners"].get("episode_return_mean")
        print(json.dumps({"steps": sampled, "return": team, "seconds": seconds}), flush=True)
    print(json.dumps({"checkpoint": str(ppo.save_to_path(str(Path("checkpoint").absolute())))}))
    ray.shutdown()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
