"""Train three agents to cover three landmarks, read the result, and act with the trained policies."""

import numpy as np

import marless
from marless.algorithms import generator
from marless.environments import EnvTask, make


def main(rounds: int = 100) -> None:
    """Trains, prints the result, and acts with the policies."""
    run = marless.train(seed=1, stop={"rounds": rounds}, evaluation={"final_episodes": 320})
    summary = run.summary
    print(
        f"{run.name}: {summary.final_return.mean:.1f} after {summary.env_steps:,} steps, ${summary.dollars.total:.4f}"
    )
    print("returns of the first rounds:", [round(row["return_mean"], 1) for row in run.metrics()[:3]])

    policy = marless.load_policy(run.path)  # also later, in another program
    environment = make(EnvTask(name="mpe/simple_spread"), num_envs=1)
    seen, total = environment.reset(generator(1, "example")), 0.0
    for _ in range(environment.spec.horizon):
        observations = {name: seen.values[0][0, index] for index, name in enumerate(policy.agents)}
        actions = policy.act(observations)
        step = environment.step((np.array([[actions[name] for name in policy.agents]]),))
        seen, total = step.observation, total + step.rewards.sum()
    print(f"one episode by hand: {total:.1f}")


if __name__ == "__main__":
    main()
