"""RLlib's PPO on `mpe2`'s simple_spread, separate networks; run as a script by an interpreter that has RLlib.

Prints one JSON object and imports no module of this project.
"""

import json
import sys
import time
from typing import Any

import ray
from mpe2 import simple_spread_v3
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

AGENTS = ("agent_0", "agent_1", "agent_2")
STEPS = "num_env_steps_sampled_lifetime"


def algorithm(runners: int) -> Any:
    """PPO with the settings of our own runs as far as RLlib has them."""
    register_env("spread", lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env()))
    return (
        PPOConfig()
        .environment("spread")
        .multi_agent(policies=set(AGENTS), policy_mapping_fn=lambda agent, *_, **__: agent)
        .env_runners(num_env_runners=runners)
        .training(
            train_batch_size_per_learner=1600,
            minibatch_size=200,
            num_epochs=4,
            lr=1e-3,
            gamma=0.9,
            lambda_=0.95,
            entropy_coeff=0.01,
        )
        .build_algo()
    )


def main() -> None:
    """Arguments: seconds to train for, and the number of environment runners."""
    seconds, runners = float(sys.argv[1]), int(sys.argv[2])
    ray.init(include_dashboard=False, log_to_driver=False)
    ppo = algorithm(runners)
    first = ppo.train()[STEPS]
    steps, began = first, time.perf_counter()
    while (passed := time.perf_counter() - began) < seconds:
        steps = ppo.train()[STEPS]
    print(json.dumps({"env_steps_per_second": (steps - first) / passed}))
    ray.shutdown()


if __name__ == "__main__":
    main()
