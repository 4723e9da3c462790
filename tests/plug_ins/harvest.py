import sys

from orchard import Orchard

sys.path.insert(0, "policies")
from play import Player

orchard, player, total = Orchard(), Player(), 0
for seed in range(100):
    observations, _ = orchard.reset(seed=seed)
    player.start()
    while orchard.agents:
        observations, rewards, *_ = orchard.step(player.act(observations))
        total += sum(rewards.values())
print(f"return {total / 100:.2f}")
