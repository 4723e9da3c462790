"""MASAC and ISAC as one plain computation in torch, environment by environment and step by step, by automatic
differentiation and torch's distributions."""

import math

import numpy as np
import torch
from msgspec import structs
from plain_ddpg import SMALLEST, Agents
from torch.distributions import Categorical, Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from marless.functions.randomness import generator


class SoftAgents(Agents):
    """All groups' networks and temperatures over rounds."""

    def __init__(self, spec, team, config, centralised, seed, tensors, own):
        super().__init__(spec, team, config, centralised, seed, tensors, own)
        slow = structs.replace(config, lr=config.temperature_lr)
        self.temperature = {g: Temperature(tensors[f"temperature/g{g:02d}/log"], slow) for g in self.groups}

    def policy_followers(self):
        return {}

    def draw(self, round_, update):
        """The noise of the update's actions by group, at the steps and at the observations after them."""
        self.now, self.later, self.entropies = {}, {}, {}
        for g in self.groups:
            n, kind = len(self.members(g)), self.kinds[self.members(g)[0]]
            for found, of, shape in (
                (self.now, "sample", (self.steps, n, self.num_envs)),
                (self.later, "sample_after", (n, self.steps, self.num_envs)),
            ):
                rng = generator(self.seed, round_, of, update, g)
                flat = (int(np.prod(shape)), kind.actions)
                if kind.continuous:
                    noise = rng.standard_normal(flat, dtype=np.float32)
                else:
                    noise = -np.log(-np.log(np.maximum(rng.random(flat, dtype=np.float32), SMALLEST)))
                found[g] = torch.tensor(noise.astype(np.float64)).reshape(*shape, kind.actions)

    def place(self, agent):
        group = self.team.groups[agent]
        return group, self.members(group).index(agent)

    def policy_after(self, agent):
        # Of the policy itself, which has no target.
        self.targets["target"] = self.policy
        found = super().policy_after(agent)
        del self.targets["target"]
        return found

    def sampled(self, agent, output, legal, noise):
        """An action that gradients pass, and the entropy of the policy, or its estimate."""
        if not self.kinds[agent].continuous:
            logits = torch.where(legal, output, -torch.inf)
            soft = torch.softmax(logits + noise, dim=0)
            hard = self.one_hot(agent, int((logits + noise).argmax()))
            return hard + soft - soft.detach(), Categorical(logits=logits).entropy()
        mean, log_std = output.chunk(2)
        std = log_std.clamp(-20, 2).exp()
        squash = TanhTransform(cache_size=1)
        density = TransformedDistribution(Independent(Normal(mean, std), 1), [squash])
        action = squash(mean + std * noise)
        return action, -density.log_prob(action)

    def action_after(self, agent, t, e, output):
        group, number = self.place(agent)
        legal = self.legal(agent, t, e, after=True)
        action, entropy = self.sampled(agent, output, legal, self.later[group][number, t, e])
        self.entropies[agent, t, e] = entropy.item() * self.left(agent, t, e)
        return action

    def future(self, agent, t, e, outputs):
        return outputs.item() + self.temperature[self.team.groups[agent]].value * self.entropies[agent, t, e]

    def target_entropy(self, agent, t, e):
        if self.kinds[agent].continuous:
            return self.config.entropy_per_number * self.kinds[agent].actions
        return self.config.entropy_share * math.log(int(self.legal(agent, t, e).sum()))

    def step_policy(self, group):
        """One step of a policy towards the lower of both critics' values and entropy, and one of its temperature
        (Haarnoja et al., 2018)."""
        network, critics = self.policy[group], [critics[group] for critics in self.critics.values()]
        outputs, rows = self.outputs(group), self.rows(group, lambda agent: [agent])
        losses, excess, alpha = [], [], self.temperature[group].value
        for steps in zip(*(self.stepped(critic, group) for critic in critics), strict=True):
            a, t, e, (*_, done) = steps[0]
            if (a, t, e) in rows:
                noise = self.now[group][t, self.place(a)[1], e]
                own, entropy = self.sampled(a, outputs[a, t, e], self.legal(a, t, e), noise)
                seen = self.critic_sees(a, t, e, {**done, a: own})[None]
                before = [state[0].detach() for *_, state in steps]
                values = [critic.after(seen, h)[0][0, 0] for critic, h in zip(critics, before, strict=True)]
                losses.append(-alpha * entropy - torch.stack(values).min())
                excess.append(entropy.item() - self.target_entropy(a, t, e))
        torch.stack(losses).mean().backward()
        for critic in critics:
            critic.optimiser.zero_grad()
        self.norms[f"policy/policy_grad_norm/g{group:02d}"] = network.step()
        self.temperature[group].step(np.mean(excess))

    def tensors(self):
        found = super().tensors()
        for g in self.groups:
            found |= self.temperature[g].tensors(f"g{g:02d}")
        return found


class Temperature:
    """The logarithm of a temperature, with torch's Adam."""

    def __init__(self, log, config):
        self.log, self.config = torch.nn.Parameter(torch.tensor(log)), config
        self.optimiser = torch.optim.Adam([self.log], lr=config.lr, eps=config.adam_eps)

    @property
    def value(self):
        return self.log.exp().item()

    def step(self, excess):
        (self.log.sum() * excess).backward()
        torch.nn.utils.clip_grad_norm_([self.log], self.config.max_grad_norm)
        self.optimiser.step()
        self.optimiser.zero_grad()

    def tensors(self, name):
        state = self.optimiser.state[self.log]
        return {
            f"temperature/{name}/log": self.log.detach().numpy().copy(),
            f"temperature_optimiser/{name}/first": state["exp_avg"].numpy().copy(),
            f"temperature_optimiser/{name}/second": state["exp_avg_sq"].numpy().copy(),
        }
