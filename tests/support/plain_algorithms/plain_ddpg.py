"""MADDPG and IDDPG as one plain computation in torch, environment by environment and step by step, by automatic
differentiation."""

import itertools

import numpy as np
import torch
from msgspec import structs
from plain_ppo import Network

from marless.functions.randomness import generator

SMALLEST = np.finfo(np.float32).tiny


class Agents:
    """All groups' networks over rounds. `own` is the round's own data."""

    def __init__(self, spec, team, config, centralised, seed, tensors, own):
        self.spec, self.team, self.config, self.centralised, self.seed = spec, team, config, centralised, seed
        self.kinds = [next(kind for kind in spec.classes if agent in kind.agents) for agent in range(len(spec.agents))]
        faster = structs.replace(config, lr=config.critic_lr)
        self.groups = sorted(set(team.groups))
        self.policy = {g: Network(tensors, "policy", f"g{g:02d}", config) for g in self.groups}
        self.critics = {
            part: {g: Network(tensors, part, f"g{g:02d}", faster) for g in self.groups} for part in config.critics
        }
        self.followers = {f"{part}_target": critics for part, critics in self.critics.items()} | self.policy_followers()
        self.targets = {
            part: {g: Network(tensors, part, f"g{g:02d}", config) for g in self.groups} for part in self.followers
        }
        self.rewards, self.done = {g: tuple(tensors[f"normaliser/g{g:02d}"]) for g in self.groups}, 0
        self.norms, self.own = {}, own

    def policy_followers(self):
        return {"target": self.policy}

    def members(self, group):
        return [agent for agent, of in enumerate(self.team.groups) if of == group]

    def address(self, round_, update):
        return generator(self.seed, round_, "replay", update)

    def update(self, batch, round_, update):
        """One update of all agents. All targets are computed before any network is updated."""
        self.look_at(batch)
        self.draw(round_, update)
        after = {a: self.policy_after(a) for a in range(len(self.spec.agents))}
        wanted = {g: self.wanted(g, after) for g in self.groups}
        for g in self.groups:
            for part in self.critics:
                self.step_critic(part, g, wanted[g])
        self.done += 1
        if self.done % getattr(self.config, "policy_delay", 1):
            return
        for g in self.groups:
            self.step_policy(g)
        for part, online in self.followers.items():
            for g in self.groups:
                self.follow(online[g], self.targets[part][g])

    def draw(self, round_, update):
        self.noise = {g: self.gumbel(g, round_, update) for g in self.groups}
        self.smoothing = {g: self.smooth(g, round_, update) for g in self.groups}

    def smooth(self, group, round_, update):
        """Normal noise for the target actions of numbers, cut off at 2.5 deviations."""
        members, spread = self.members(group), getattr(self.config, "target_noise", 0)
        shape = len(members), self.steps, self.num_envs, self.kinds[members[0]].actions
        drawn = generator(self.seed, round_, "smoothing", update, group).standard_normal(shape, dtype=np.float32)
        return torch.tensor(drawn.astype(np.float64)).clamp(-2.5, 2.5) * spread

    def look_at(self, batch):
        self.batch, (self.steps, self.num_envs) = batch, batch.ended.shape
        self.cuts = {tuple(step): number for number, step in enumerate(batch.cut.tolist())}

    def follow(self, online, slow):
        """A target network goes after the online one: a share of the way each time, or all of it every few updates."""
        rate = (
            self.config.tau
            if self.config.target_update_interval is None
            else self.done % self.config.target_update_interval == 0
        )
        with torch.no_grad():
            for name, parameter in slow.named.items():
                parameter.copy_((1 - rate) * parameter + rate * online.named[name])

    # The inputs of networks.

    def identified(self, agent, values):
        one_hot = np.eye(len(self.spec.agents))[agent] if self.team.identity else []
        return torch.cat([values, torch.tensor(one_hot, dtype=torch.float64)])

    def cut(self, t, e):
        """The number of the cut after a step, or None."""
        return self.cuts.get((t, e))

    def observed(self, agent, t, e):
        return torch.tensor(self.batch.of(self.batch.observations, agent)[t, e] * self.batch.alive[agent, t, e])

    def observed_after(self, agent, t, e):
        cut = self.cut(t, e)
        if cut is None:
            return self.observed(agent, t + 1, e)
        return torch.tensor(self.batch.of(self.batch.cut_observations, agent)[cut] * self.left(agent, t, e))

    def left(self, agent, t, e):
        return bool(self.batch.alive[agent, t, e] and not self.batch.terminated[agent, t, e])

    def critic_sees(self, agent, t, e, actions, after=False):
        cut = self.cut(t, e) if after else None
        everybody = range(len(self.spec.agents)) if self.centralised else [agent]
        if self.centralised:
            seen = torch.tensor(self.batch.cut_state[cut] if cut is not None else self.batch.state[t + after, e])
        else:
            seen = (self.observed_after if after else self.observed)(agent, t, e)
        return self.identified(agent, torch.cat([seen, *(actions[other] for other in everybody)]))

    def legal(self, agent, t, e, after=False):
        if self.batch.masks is None or self.kinds[agent].continuous:
            return torch.ones(self.kinds[agent].actions, dtype=torch.bool)
        cut = self.cut(t, e) if after else None
        if cut is not None:
            return torch.tensor(self.batch.of(self.batch.cut_masks, agent)[cut])
        return torch.tensor(self.batch.of(self.batch.masks, agent)[t + after, e])

    # The actions of agents.

    def gumbel(self, group, round_, update):
        members, width = self.members(group), self.kinds[self.members(group)[0]].actions
        rng = generator(self.seed, round_, "gumbel", update, group)
        drawn = rng.random((self.steps * len(members) * self.num_envs, width), dtype=np.float32)
        noise = -np.log(-np.log(np.maximum(drawn, SMALLEST)))
        return torch.tensor(noise.astype(np.float64)).reshape(self.steps, len(members), self.num_envs, width)

    def taken(self, agent, t, e):
        action = self.batch.of(self.batch.actions, agent)[t, e]
        wide = torch.tensor(action) if self.kinds[agent].continuous else self.one_hot(agent, int(action))
        return wide * float(self.batch.alive[agent, t, e])

    def one_hot(self, agent, action):
        return torch.eye(self.kinds[agent].actions, dtype=torch.float64)[action]

    def begins(self, t, e):
        return t == 0 or bool(self.batch.ended[t - 1, e])

    def policy_after(self, agent):
        """The target policy's action after each step by (t, e), where the step has a successor."""
        network, found = self.targets["target"][self.team.groups[agent]], {}
        for e in range(self.num_envs):
            hidden = network.empty(1)
            for t in range(self.steps):
                hidden = network.empty(1) if self.begins(t, e) else hidden
                _, hidden = network.after(self.identified(agent, self.observed(agent, t, e))[None], hidden)
                if not self.followed(t, e):
                    continue
                seen = self.identified(agent, self.observed_after(agent, t, e))
                output = network.after(seen[None], hidden)[0][0].detach()
                found[t, e] = self.action_after(agent, t, e, output) * self.left(agent, t, e)
        return found

    def action_after(self, agent, t, e, output):
        if self.kinds[agent].continuous:
            group = self.team.groups[agent]
            noise = self.smoothing[group][self.members(group).index(agent), t, e]
            return (torch.tanh(output) + noise).clamp(-1, 1)
        legal = self.legal(agent, t, e, after=True)
        return self.one_hot(agent, int(torch.where(legal, output, -torch.inf).argmax()))

    def detached_after_burn_in(self, hidden, t):
        """The hidden state at the first learned step is detached."""
        return hidden.detach() if t == self.config.burn_in else hidden

    def followed(self, t, e):
        return self.cut(t, e) is not None or (t < self.steps - 1 and not self.batch.ended[t, e])

    def policy_now(self, agent, t, e, output):
        """The action of the present policy with its gradient: by tanh where it is continuous, else by straight-through
        Gumbel-softmax (Jang et al., 2017)."""
        if self.kinds[agent].continuous:
            return torch.tanh(output)
        members = self.members(self.team.groups[agent])
        noise = self.noise[self.team.groups[agent]][t, members.index(agent), e]
        legal = self.legal(agent, t, e)
        logits = torch.where(legal, (output + noise) / self.config.temperature, -torch.inf)
        soft = torch.softmax(logits, dim=0)
        return self.one_hot(agent, int(logits.argmax())) + soft - soft.detach()

    # Learning.

    def rows(self, group, whose):
        """Agent, step and environment of the rows that count: one of the agents that `whose` returns is alive."""
        steps = itertools.product(self.members(group), range(self.config.burn_in, self.steps), range(self.num_envs))
        return {(a, t, e): None for a, t, e in steps if any(self.batch.alive[other, t, e] for other in whose(a))}

    def paying(self, agent):
        sides = self.spec.sides or (0,) * len(self.spec.agents)
        return [a for a, side in enumerate(sides) if side == sides[agent]] if self.config.reward == "team" else [agent]

    def reward(self, agent, t, e):
        return sum(self.batch.rewards[other, t, e] for other in self.paying(agent))

    def over(self, agent, t, e):
        limit = self.config.time_limit == "terminal" and self.batch.ended[t, e] and self.cut(t, e) is not None
        return limit or not any(self.left(other, t, e) for other in self.paying(agent))

    def scale(self, group, rows):
        """The scale of rewards, from running means of them and their squares, and the level in units of it."""
        seen = np.array([self.reward(*row) for row in rows])
        mean, square, weight, level = self.rewards[group]
        level = level if weight else self.mean_return(group)
        new = 0.999 * mean + 0.001 * seen.mean(), 0.999 * square + 0.001 * (seen**2).mean(), 0.999 * weight + 0.001
        self.rewards[group] = *new, level
        variance = new[1] / new[2] - (new[0] / new[2]) ** 2
        scale = np.sqrt(max(variance, 1e-2)) if self.config.standardise_rewards else 1.0
        # Values are outputs plus the level.
        return scale, level / scale

    def mean_return(self, group):
        """Over the round's own steps, each up to its agent's last reward or the cut of its episode."""
        drawn, returns = self.batch, []
        self.look_at(self.own)
        for a, t, e in self.rows(group, self.paying):
            total = 0.0
            for k in range(t, self.steps):
                total += self.config.gamma ** (k - t) * self.reward(a, k, e)
                if self.over(a, k, e) or self.batch.ended[k, e]:
                    break
            returns.append(total)
        self.look_at(drawn)
        return np.mean(returns)

    def wanted(self, group, after):
        """Return the targets of critics, by agent, step and environment: values less the offset, like outputs."""
        rows, found = self.rows(group, self.paying), {}
        scale, offset = self.scale(group, rows)
        critics = [self.targets[f"{part}_target"][group] for part in self.critics]
        for steps in zip(*(self.stepped(network, group) for network in critics), strict=True):
            a, t, e, _ = steps[0]
            if (a, t, e) not in rows:
                continue
            future = 0.0
            if not self.over(a, t, e):
                seen = self.critic_sees(a, t, e, {other: after[other][t, e] for other in after}, after=True)
                hidden = [state[1] for _, _, _, state in steps]
                outputs = [n.after(seen[None], h)[0][0].detach() for n, h in zip(critics, hidden, strict=True)]
                future = self.future(a, t, e, torch.stack(outputs).min(dim=0).values) + offset
            found[a, t, e] = self.reward(a, t, e) / scale + self.config.gamma * future - offset
        return found

    def future(self, agent, t, e, outputs):
        """The value after a step, of the least of the critics' outputs."""
        return outputs.item()

    def stepped(self, network, group):
        """Agent, step, environment, and of the critic the hidden state before and after, the value, and the actions."""
        for a in self.members(group):
            for e in range(self.num_envs):
                hidden = network.empty(1)
                for t in range(self.steps):
                    before = network.empty(1) if self.begins(t, e) else self.detached_after_burn_in(hidden, t)
                    done = {other: self.taken(other, t, e) for other in range(len(self.spec.agents))}
                    value, hidden = network.after(self.critic_sees(a, t, e, done)[None], before)
                    yield a, t, e, (before, hidden, value[0, 0], done)

    def step_critic(self, part, group, targets):
        network, delta = self.critics[part][group], self.config.huber_delta
        losses = []
        for a, t, e, (_, _, value, _) in self.stepped(network, group):
            if (a, t, e) in targets:
                off = value - targets[a, t, e]
                inside = off.abs() <= (delta or np.inf)
                losses.append(
                    off**2 if delta is None else torch.where(inside, off**2 / 2, delta * (off.abs() - delta / 2))
                )
        torch.stack(losses).mean().backward()
        self.norms[f"critic/{part}_grad_norm/g{group:02d}"] = network.step()

    def step_policy(self, group):
        """Take one step of a policy along the critic's gradient. All other agents act like in the batch."""
        network, critic = self.policy[group], self.critics["critic"][group]
        outputs = self.outputs(group)
        rows, values = self.rows(group, lambda agent: [agent]), []
        for a, t, e, (before, _, _, done) in self.stepped(critic, group):
            if (a, t, e) in rows:
                own = self.policy_now(a, t, e, outputs[a, t, e])
                seen = self.critic_sees(a, t, e, {**done, a: own})
                values.append(critic.after(seen[None], before.detach())[0][0, 0])
        pull = torch.stack([outputs[row] for row in rows]).square().mean()
        (-torch.stack(values).mean() + self.config.regularisation * pull).backward()
        critic.optimiser.zero_grad()
        self.norms[f"policy/policy_grad_norm/g{group:02d}"] = network.step()

    def outputs(self, group):
        network, outputs = self.policy[group], {}
        for a in self.members(group):
            for e in range(self.num_envs):
                hidden = network.empty(1)
                for t in range(self.steps):
                    hidden = network.empty(1) if self.begins(t, e) else self.detached_after_burn_in(hidden, t)
                    seen = self.identified(a, self.observed(a, t, e))
                    output, hidden = network.after(seen[None], hidden)
                    outputs[a, t, e] = output[0]
        return outputs

    def tensors(self):
        found = {}
        for g in self.groups:
            found |= self.policy[g].tensors()
            for critics in self.critics.values():
                found |= critics[g].tensors()
            for part, networks in self.targets.items():
                for name, parameter in networks[g].named.items():
                    found[f"{part}/g{g:02d}/{name}"] = parameter.detach().numpy()
            found[f"normaliser/g{g:02d}"] = np.array(self.rewards[g])
        return found
