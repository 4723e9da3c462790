"""A plain implementation of a team's Q-learning with automatic differentiation: all networks at once, no stages.

Everything is computed step by step from the rollouts themselves. From the algorithms it takes only the addresses of
minibatches (see `sample_uniformly`) and the tensors to start from. Doubles throughout.
"""

from functools import partial

import numpy as np
import torch

from marless.functions.randomness import generator

torch.set_num_threads(1)  # the arrays are too small for a second thread to pay


def address(context):
    return generator(context.seed, context.round, "replay", context.update)


def count_segments(rollouts, length):
    steps, num_envs = rollouts[0]["ended"].shape
    return len(rollouts) * (steps // length) * num_envs


def sample_uniformly(rollouts, context, size, length):
    """The numbers of the segments of a minibatch: integers drawn at the address."""
    return tuple(address(context).integers(count_segments(rollouts, length), size=size).tolist())


def sample_by_priority(priorities, context, size):
    """The same in proportion to priorities: one number from each of `size` equal parts of their total."""
    found, total = [], 0.0
    for priority in priorities:
        total += priority
    for part, uniform in enumerate(address(context).random(size).tolist()):
        mark, below, index = (part + uniform) / size * total, priorities[0], 0
        while below <= mark:
            index += 1
            below += priorities[index]
        found.append(index)
    return tuple(found)


def starts_of(rollouts, numbers, length):
    """Segments as (rollout, first step, environment), counted by rollout, then by time, then by environment."""
    steps, num_envs = rollouts[0]["ended"].shape
    found = []
    for number in numbers:
        segment, env = divmod(number, num_envs)
        rollout, within = divmod(segment, steps // length)
        found.append((rollouts[rollout], within * length, env))
    return found


def after(rollout, name, t, e, of_agents=True):
    """The array after a step: after a cut, or one row on. Zeros where an episode terminated."""
    rows, cuts = rollout[name], {tuple(step): index for index, step in enumerate(rollout["cut"].tolist())}
    if (t, e) in cuts:
        beyond = rollout[f"cut_{name}"]
        return beyond[:, cuts[t, e]] if of_agents else beyond[cuts[t, e]]
    row = rows[:, t, e] if of_agents else rows[t, e]
    if rollout["ended"][t, e]:
        return np.ones_like(row) if row.dtype == bool else np.zeros_like(row)
    return rows[:, t + 1, e] if of_agents else rows[t + 1, e]


def alive_after(rollout, agent, t, e):
    return rollout["alive"][agent, t, e] and not rollout["terminated"][agent, t, e]


class Minibatch:
    """The rows of segments, agent by agent: lists over agents of arrays ``[L, B, ...]``."""

    def __init__(self, spec, team, segments, length, time_limit, burn_in):
        def rows(value_of):
            return torch.tensor(np.array([[value_of(u, t + k, e) for u, t, e in segments] for k in range(length)]))

        self.length, self.size, agents = length, len(segments), range(len(spec.agents))
        self.observations, self.beyond, self.legal, self.free, self.actions = [], [], [], [], []
        for agent in agents:
            c = spec.class_of[agent]
            i, one_hot = spec.classes[c].agents.index(agent), np.eye(len(agents))[agent] if team.identity else ()
            seen, mask = f"observation/{c}", f"mask/{c}"
            # A dead agent observes zeros, and its recorded action is action 0.
            self.observations.append(
                rows(lambda u, t, e, a=agent, i=i, s=seen, o=one_hot: [*u[s][i, t, e] * u["alive"][a, t, e], *o])
            )
            self.beyond.append(
                rows(
                    lambda u, t, e, a=agent, i=i, s=seen, o=one_hot: [
                        *after(u, s, t, e)[i] * alive_after(u, a, t, e),
                        *o,
                    ]
                )
            )
            width = spec.classes[c].actions
            free = rows(lambda u, t, e, i=i, m=mask: after(u, m, t, e)[i]) if spec.masked else torch.tensor(True)
            there = rows(lambda u, t, e, a=agent: alive_after(u, a, t, e))[..., None]
            first = torch.arange(width) == 0
            self.legal.append(torch.where(there, free.expand(length, self.size, width), first))
            now = rows(lambda u, t, e, i=i, m=mask: u[m][i, t, e]) if spec.masked else torch.tensor(True)
            self.free.append(now.expand(length, self.size, width))
            self.actions.append(
                rows(lambda u, t, e, a=agent, i=i, c=c: u[f"action/{c}"][i, t, e] * u["alive"][a, t, e]).long()
            )
        self.ended = rows(lambda u, t, e: u["ended"][t, e])
        self.alive = [rows(lambda u, t, e, a=a: u["alive"][a, t, e]) for a in agents]
        cut = rows(lambda u, t, e: u["ended"][t, e] and [t, e] in u["cut"].tolist())
        self.over = [rows(lambda u, t, e, a=a: u["terminated"][a, t, e]) for a in agents]
        if time_limit == "terminal":
            self.over = [over | cut for over in self.over]
        self.learned = [alive.clone() for alive in self.alive]
        for learned in self.learned:
            learned[:burn_in] = False
        self.rewards = [rows(lambda u, t, e, a=a: u["reward"][a, t, e] * u["alive"][a, t, e]) for a in agents]
        self.state = rows(lambda u, t, e: u["state"][t, e])
        self.state_after = rows(lambda u, t, e: after(u, "state", t, e, of_agents=False))


def network(p, x, h):
    """A perceptron of ReLU layers. The last hidden layer may be a GRU."""
    last = sum(name.startswith("w") for name in p) - 1
    for k in range(last):
        x = torch.relu(x @ p[f"w{k}"] + p[f"b{k}"])
    if "gru_x" in p:
        x = h = torch.gru_cell(x, h, p["gru_x"].T, p["gru_h"].T, p["gru_bx"], p["gru_bh"])
    return x @ p[f"w{last}"] + p[f"b{last}"], h


def unroll(p, now, then, ended, burn_in):
    """Return values ``[L, B, actions]`` of the observations, and of the next observations with the hidden state
    there."""
    size = now.shape[1]
    h = torch.zeros(size, p["gru_h"].shape[0], dtype=torch.float64) if "gru_x" in p else None
    values, following = [], []
    for t in range(len(now)):
        if t and h is not None:
            h = torch.where(ended[t - 1][:, None], 0.0, h)
        if t == burn_in and h is not None:
            h = h.detach()
        q, h = network(p, now[t], h)
        values.append(q)
        following.append(network(p, then[t], h)[0])
    return torch.stack(values), torch.stack(following)


def hypernetwork(p, name, x):
    layers = sum(key.startswith(f"{name}/w") for key in p)
    for k in range(layers):
        x = x @ p[f"{name}/w{k}"] + p[f"{name}/b{k}"]
        x = torch.relu(x) if k < layers - 1 else x
    return x


def mix(p, state, utilities):
    """QMIX's mixing network: ELU(u |W1| + b1) |w2| + b2, all of it made from the state. ``[B, S]``, ``[B, n]``."""
    first_weight, first_bias, last_weight, last_bias = (
        hypernetwork(p, name, state) for name in ("first_weight", "first_bias", "last_weight", "last_bias")
    )
    hidden = (utilities[:, :, None] * first_weight.abs().view(*utilities.shape, -1)).sum(dim=1)
    hidden = torch.nn.functional.elu(hidden + first_bias)
    return (hidden * last_weight.abs()).sum(dim=1) + last_bias[:, 0]


def duel(p, state, utilities, best, actions):
    """QPLEX's mixing network, agent by agent like in the authors' code. ``[B, S]``, twice ``[B, n]``, ``[B, n A]``."""
    w = hypernetwork(p, "weight", state).abs() + 1e-10
    b = hypernetwork(p, "bias", state)
    q, highest = w * utilities + b, w * best + b
    advantage = (q - highest).detach()
    key = hypernetwork(p, "key", state).abs() + 1e-10
    agents = torch.sigmoid(hypernetwork(p, "agent", state)).view(*key.shape, -1)
    taken = torch.sigmoid(hypernetwork(p, "action", torch.cat([state, actions], dim=1))).view(*key.shape, -1)
    attention = sum(key[:, k, None] * agents[:, k] * taken[:, k] for k in range(key.shape[1]))
    return q.sum(dim=1) + (advantage * (attention - 1)).sum(dim=1)


def part(tensors, prefix, grad):
    own = {name.removeprefix(f"{prefix}/"): array for name, array in tensors.items() if name.startswith(f"{prefix}/")}
    return {name: torch.tensor(np.array(array), requires_grad=grad) for name, array in own.items() if name != "relu"}


def target_of(key):
    return key.replace("policy", "target").replace("mixer", "mixer_target")


class Plain:
    def __init__(self, name, spec, team, config, tensors, rollouts):
        self.name, self.spec, self.team, self.config, self.rollouts = name, spec, team, config, rollouts
        self.sides = {}
        for agent, side in enumerate(spec.sides or (0,) * len(spec.agents)):
            self.sides.setdefault(side, []).append(agent)
        heads = [f"g{min(team.groups[agent] for agent in side):02d}" for side in self.sides.values()]
        names = [f"policy/g{g:02d}" for g in sorted(set(team.groups))]
        names += [f"mixer/{head}" for head in heads] if name in ("qmix", "qplex") else []
        self.online = {key: part(tensors, key, True) for key in names}
        self.target = {key: part(tensors, target_of(key), False) for key in names}
        self.scales = {key: array.copy() for key, array in tensors.items() if key.startswith("normaliser/")}
        self.steps = {
            key: torch.optim.Adam(p.values(), lr=config.lr, eps=config.adam_eps) for key, p in self.online.items()
        }
        self.priorities = {}  # by groups that learn together, the newest
        self.norms, self.capped = {}, dict.fromkeys(self.online, 0)

    def update(self, context, length):
        config = self.config
        if self.name == "iql":
            loss = sum(self.own_loss(*self.seen(context, length, (g,)), g) for g in sorted(set(self.team.groups)))
        else:
            loss = 0.0
            for side in self.sides.values():
                groups = tuple(sorted({self.team.groups[agent] for agent in side}))
                loss = loss + self.joint_loss(*self.seen(context, length, groups), side)
        for optimiser in self.steps.values():
            optimiser.zero_grad()
        loss.backward()
        for key, optimiser in self.steps.items():
            self.norms[key] = torch.nn.utils.clip_grad_norm_(self.online[key].values(), config.max_grad_norm).item()
            self.capped[key] += self.norms[key] > config.max_grad_norm
            optimiser.step()
        self.chase(context.round * config.updates_per_round + context.update + 1)

    def seen(self, context, length, groups):
        """The minibatch of groups that learn together, and all agents' values in it."""
        config = self.config
        if config.priority:
            priorities = self.priorities.setdefault(groups, [1.0] * count_segments(self.rollouts, length))
            numbers = sample_by_priority(priorities, context, config.batch_size)
        else:
            numbers = sample_uniformly(self.rollouts, context, config.batch_size, length)
        found = starts_of(self.rollouts, numbers, length)
        batch = Minibatch(self.spec, self.team, found, length, config.time_limit, config.burn_in)
        batch.numbers, batch.groups = numbers, groups
        return batch, *self.valued(batch)

    def lost(self, batch, difference, counted):
        """The mean loss over rows ``[..., L, B]`` that count. With priorities weighed, and these renewed."""
        rows, config = self.error(difference), self.config
        if config.priority:
            priorities = self.priorities[batch.groups]
            rows = rows * torch.tensor(self.importance(priorities, batch.numbers), dtype=rows.dtype)
            for row, number in enumerate(batch.numbers):
                own = difference[..., row][counted[..., row]].detach().abs().numpy()
                priorities[number] = float(np.float32((own.mean() + 1e-6) ** config.priority)) if own.size else 0.0
        return (rows * counted).sum() / max(1, int(counted.sum()))

    def importance(self, priorities, numbers):
        """``(N P)^-beta`` over its maximum, where P is not 0."""
        config, steps = self.config, sum(rollout["ended"].size for rollout in self.rollouts)
        beta = config.priority_beta + (1 - config.priority_beta) * min(1, steps / config.priority_steps)
        chances = [priority / sum(priorities) for priority in priorities]
        weights = [(len(chances) * chance) ** -beta if chance else 0 for chance in chances]
        return [weights[number] / max(weights) for number in numbers]

    def valued(self, batch):
        """The values ``[L, B]`` of each agent's action, and of its next one by the target network."""
        taken, future = [], []
        batch.best, batch.next_best, batch.next_actions = [], [], []
        for agent, group in enumerate(self.team.groups):
            seen = batch.observations[agent], batch.beyond[agent], batch.ended, self.config.burn_in
            online, own = unroll(self.online[f"policy/g{group:02d}"], *seen)
            with torch.no_grad():
                _, aim = unroll(self.target[f"policy/g{group:02d}"], *seen)
                liked = torch.where(batch.legal[agent], own if self.config.double else aim, -torch.inf)
                future.append(aim.gather(2, liked.argmax(dim=2, keepdim=True))[..., 0])
                batch.next_actions.append(liked.argmax(dim=2))
                batch.next_best.append(torch.where(batch.legal[agent], aim, -torch.inf).max(dim=2).values)
                batch.best.append(torch.where(batch.free[agent], online, -torch.inf).max(dim=2).values)
            taken.append(online.gather(2, batch.actions[agent][..., None])[..., 0])
        return taken, future

    def scaled(self, key, rewards, counted, playing):
        """Rewards over their running standard deviation, and the offset of values over outputs: the level, which is the
        mean return of the first round. `playing` are the agents paid together, one list for each row of rewards."""
        *known, level = self.scales[key]
        if counted.any():
            level = level if known[2] else np.mean([total for side in playing for total in self.returns(side)])
            seen = rewards[counted].numpy()
            known = 0.999 * np.array(known) + 0.001 * np.array([seen.mean(), (seen**2).mean(), 1.0])
            self.scales[key] = np.array([*known, level])
        mean, square, weight = known
        variance = square / weight - (mean / weight) ** 2 if weight else 1.0
        scale = np.sqrt(max(variance, 0.01)) if self.config.standardise_rewards else 1.0
        return rewards / scale, level / scale

    def returns(self, side):
        """The side's return from each step of the round, until all its agents are dead or the episode is cut."""
        steps, num_envs = self.rollouts[0]["ended"].shape
        starts = [(self.rollouts[0], 0, env) for env in range(num_envs)]
        batch = Minibatch(self.spec, self.team, starts, steps, self.config.time_limit, self.config.burn_in)
        for t, b in np.ndindex(steps, num_envs):
            if not any(batch.learned[agent][t, b] for agent in side):
                continue
            total, playing = 0.0, [agent for agent in side if batch.alive[agent][t, b]]
            for k in range(t, steps):
                total += self.config.gamma ** (k - t) * sum(batch.rewards[agent][k, b].item() for agent in side)
                playing = [agent for agent in playing if not batch.over[agent][k, b]]
                if not playing or batch.ended[k, b]:
                    break
            yield total

    def side_rewards(self, batch, agent):
        return sum(batch.rewards[other] for other in self.side(agent))

    def side(self, agent):
        return next(side for side in self.sides.values() if agent in side)

    def own_loss(self, batch, taken, future, group):
        """IQL: every agent of the group towards its own return until its death, or its team's until all are dead."""
        agents = [agent for agent, of in enumerate(self.team.groups) if of == group]
        playing = {agent: self.side(agent) if self.config.reward == "team" else [agent] for agent in agents}
        rewards = torch.stack([sum(batch.rewards[other] for other in playing[a]) for a in agents])
        learned = torch.stack([sum(batch.learned[other] for other in playing[a]) > 0 for a in agents])
        rewards, offset = self.scaled(f"normaliser/g{group:02d}", rewards, learned, playing.values())
        errors = []
        for row, agent in enumerate(agents):
            target = torch.zeros_like(taken[agent])
            for t, b in np.ndindex(*target.shape):
                there = [other for other in playing[agent] if batch.alive[other][t, b]]
                target[t, b] = self.walk(
                    batch, rewards[row], t, b, there, lambda k, b, remaining, a=agent: future[a][k, b] + offset
                )
            errors.append(taken[agent] + offset - target)
        return self.lost(batch, torch.stack(errors), learned)

    def joint_loss(self, batch, taken, future, side):
        """VDN, QMIX and QPLEX: the side's joint value towards the side's return while one of its agents is alive."""
        head = f"g{min(self.team.groups[agent] for agent in side):02d}"
        counted = torch.stack([batch.learned[a] for a in side]).any(dim=0)
        rewards, offset = self.scaled(f"normaliser/{head}", self.side_rewards(batch, side[0]), counted, [side])
        if self.name == "vdn":
            joint = sum((taken[a] + offset / len(side)) * batch.alive[a] for a in side)
        else:
            alive = torch.stack([batch.alive[a] for a in side], dim=2)
            mixed = partial(self.mixed, self.online[f"mixer/{head}"], side)
            of_side = [torch.stack([values[a] for a in side], dim=2) for values in (taken, batch.best, batch.actions)]
            joint = torch.stack(
                [offset + mixed(batch.state[t], alive[t], *(v[t] for v in of_side)) for t in range(batch.length)]
            )

        def value(k, b, remaining):
            if self.name == "vdn":
                return sum(future[a][k, b] + offset / len(side) for a in remaining)
            kept = torch.tensor([[a in remaining for a in side]])
            values = [
                torch.stack([values[a][k, b] for a in side])[None]
                for values in (future, batch.next_best, batch.next_actions)
            ]
            return (
                offset + self.mixed(self.target[f"mixer/{head}"], side, batch.state_after[k, b][None], kept, *values)[0]
            )

        target = torch.zeros_like(joint)
        for t, b in np.ndindex(*target.shape):
            target[t, b] = self.walk(batch, rewards, t, b, [a for a in side if batch.alive[a][t, b]], value)
        return self.lost(batch, joint - target, counted)

    def mixed(self, p, side, state, alive, values, best, actions):
        """The mixing network's value of rows. Dead agents have utility, advantage and action 0."""
        if self.name == "qmix":
            return mix(p, state, values * alive)
        widths = [self.spec.classes[self.spec.class_of[a]].actions for a in side]
        one_hots = [torch.eye(wide, dtype=state.dtype)[actions[:, i]] for i, wide in enumerate(widths)]
        played = torch.cat([hot * alive[:, i, None] for i, hot in enumerate(one_hots)], dim=1)
        return duel(p, state, values * alive, best * alive, played)

    def walk(self, batch, rewards, t, b, playing, value):
        """Discounted rewards while an agent is alive, and the value of the remaining agents at the last step."""
        total, gamma, mixing = 0.0, self.config.gamma, self.config.td_lambda
        if mixing:
            going_on = [agent for agent in playing if not batch.over[agent][t, b]]
            if not going_on:
                return rewards[t, b]
            after = value(t, b, going_on)
            if t + 1 < batch.length and not batch.ended[t, b]:
                after = (1 - mixing) * after + mixing * self.walk(batch, rewards, t + 1, b, going_on, value)
            return rewards[t, b] + gamma * after
        for k in range(self.config.n_step):
            total = total + gamma**k * rewards[t + k, b]
            playing = [agent for agent in playing if not batch.over[agent][t + k, b]]
            if not playing:
                return total
            if k + 1 == self.config.n_step or t + k + 1 == batch.length or batch.ended[t + k, b]:
                return total + gamma ** (k + 1) * value(t + k, b, playing)
        raise AssertionError

    def error(self, difference):
        delta = self.config.huber_delta
        if delta is None:
            return difference**2
        return torch.nn.functional.huber_loss(difference, torch.zeros_like(difference), reduction="none", delta=delta)

    def chase(self, updates):
        """Target networks go after the online ones: a share of the way each time, or all of it every few updates."""
        rate, every = self.config.tau, self.config.target_update_interval
        with torch.no_grad():
            for key, target in self.target.items():
                for name, tensor in target.items():
                    if every is None:
                        tensor += rate * (self.online[key][name] - tensor)
                    elif updates % every == 0:
                        tensor.copy_(self.online[key][name])

    @property
    def tensors(self):
        found = {f"{key}/{name}": t.detach().numpy() for key, p in self.online.items() for name, t in p.items()}
        for key, p in self.target.items():
            found |= {f"{target_of(key)}/{name}": tensor.numpy() for name, tensor in p.items()}
        for key, optimiser in self.steps.items():
            states, prefix = [optimiser.state[t] for t in self.online[key].values()], key.replace("/", "_optimiser/")
            for short, long in (("first", "exp_avg"), ("second", "exp_avg_sq")):
                found[f"{prefix}/{short}"] = torch.cat([state[long].reshape(-1) for state in states]).numpy()
            found[f"{prefix}/steps"] = np.array([int(state["step"]) for state in states[:1]])
        for groups, priorities in self.priorities.items():
            for name in (f"priorities/g{group:02d}" for group in groups):
                found |= {
                    f"{name}/units": np.array([(index, 0) for index in range(len(self.rollouts))]),
                    f"{name}/values": np.array(priorities, np.float32),
                    f"{name}/steps": np.array([sum(rollout["ended"].size for rollout in self.rollouts)]),
                }
        networks = [key for key in self.online if key.startswith("policy/")]
        found |= {f"{name}/relu": np.zeros(0) for key in networks for name in (key, target_of(key))}
        return found | self.scales
