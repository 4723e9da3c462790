"""One group's PPO update as one plain computation, agent by agent and segment by segment. It uses automatic
differentiation and torch's Adam: slow, and easy to compare with the papers."""

import itertools

import numpy as np
import torch

from marless.functions.randomness import generator

# The largest weight of a row of old data, by correction.
CAPS = {"vtrace": 1.0, "decoupled": 5.0}


class Network:
    """A network of torch parameters, stepped through time by torch's own cell, with torch's Adam."""

    def __init__(self, tensors, part, name, config):
        self.part, self.name, self.config, self.capped = part, name, config, 0
        prefix = f"{part}/{name}/"
        self.named = {
            key[len(prefix) :]: torch.nn.Parameter(torch.tensor(array))
            for key, array in tensors.items()
            if key.startswith(prefix) and key != f"{prefix}seen"
        }
        self.layers = sum(key.startswith("w") for key in self.named)
        self.optimiser = torch.optim.Adam(self.named.values(), lr=config.lr, eps=config.adam_eps)

    def after(self, inputs, state):
        named = self.named
        for layer in range(self.layers - 1):
            inputs = torch.tanh(self._normed(layer, inputs @ named[f"w{layer}"] + named[f"b{layer}"]))
        if "gru_x" in named:
            weights = named["gru_x"].T, named["gru_h"].T, named["gru_bx"], named["gru_bh"]
            state = torch.gru_cell(inputs, state, *weights)
            inputs = self._normed(self.layers - 1, state)
        return inputs @ named[f"w{self.layers - 1}"] + named[f"b{self.layers - 1}"], state

    def _normed(self, layer, values):
        if f"gain{layer}" not in self.named:
            return values
        norm = self.named[f"gain{layer}"], self.named[f"shift{layer}"]
        return torch.nn.functional.layer_norm(values, values.shape[-1:], *norm)

    def unrolled(self, inputs, begins, state):
        """``[T, B, F] -> [T, B, out]`` and the states before and after every step."""
        outputs, before, after = [], [], []
        for x, new in zip(inputs, begins, strict=True):
            state = torch.where(new[:, None], 0.0, state)
            before.append(state)
            out, state = self.after(x, state)
            outputs.append(out)
            after.append(state)
        return torch.stack(outputs), torch.stack(before), torch.stack(after)

    def empty(self, rows):
        return torch.zeros(rows, self.named["gru_h"].shape[0] if "gru_h" in self.named else 0, dtype=torch.float64)

    def step(self):
        norm = torch.nn.utils.clip_grad_norm_(self.named.values(), self.config.max_grad_norm)
        self.capped += bool(norm > self.config.max_grad_norm)
        self.optimiser.step()
        self.optimiser.zero_grad()
        return norm.item()

    def tensors(self):
        states = [self.optimiser.state[parameter] for parameter in self.named.values()]
        prefix, moments = f"{self.part}_optimiser/{self.name}", (("first", "exp_avg"), ("second", "exp_avg_sq"))
        found = {f"{self.part}/{self.name}/{key}": array.detach().numpy().copy() for key, array in self.named.items()}
        joined = {k: torch.cat([state[long].reshape(-1) for state in states]).numpy() for k, long in moments}
        return found | {f"{prefix}/{key}": array.copy() for key, array in joined.items()}


class Group:
    """One group's whole update, agent by agent, segment by segment."""

    def __init__(self, context, algorithm, group):
        self.context, self.group, self.config = context, group, context.config
        self.agents = [agent for agent, of in enumerate(context.team.groups) if of == group]
        self.centralised = algorithm.name in ("mappo", "happo")
        self.factor = torch.ones(context.batch.ended.shape, dtype=torch.float64)
        name = f"g{group:02d}"
        self.policy = Network(context.tensors, "policy", name, self.config)
        self.critic = Network(context.tensors, "critic", name, self.config)
        self.kind = next(kind for kind in context.spec.classes if self.agents[0] in kind.agents)
        self.seen, self.norms, self.value_clipped = (0.0, 0.0, 0.0), {}, False
        self.inputs_so_far = {"policy": [], "critic": []}
        sides = context.spec.sides or (0, 0, 0)
        self.side = {agent: [other for other in range(3) if sides[other] == sides[agent]] for agent in self.agents}

    def counts(self, part, agent, t, e):
        """Return True where a network learns from the agent's step. Critics of team returns learn until all die."""
        who = self.side[agent] if part == "critic" and self.config.reward == "team" else [agent]
        return any(self.context.batch.alive[other, t, e] for other in who)

    def round(self, number):
        """All epochs of one round, each minibatch summed piece by piece."""
        self.estimate()
        for part, network, loss in (
            ("policy", self.policy, self.policy_loss),
            ("critic", self.critic, self._value_loss),
        ):
            pieces, norms = self.pieces(network, part), []
            for chosen in self._minibatches(part, number, len(pieces)):
                self.loss_of([pieces[place] for place in chosen], network, loss).backward()
                norms.append(network.step())
            self.norms[part] = np.mean(norms[-self.config.num_minibatches :])
        self.changed = self._ratio()
        for part, rows in self.inputs_so_far.items():
            rows += [self._raw_inputs(part, agent)[0][self.context.batch.alive[agent]] for agent in self.agents]

    def _inputs(self, part, agent):
        """``[T, E, F]`` and after cuts ``[K, F]``, normalised by all of the rounds before, with the one-hot."""
        inputs = self._raw_inputs(part, agent)
        if self.config.normalise_observations and self.inputs_so_far[part]:
            known = np.concatenate(self.inputs_so_far[part])
            inputs = [np.clip((x - known.mean(axis=0)) / np.sqrt(known.var(axis=0) + 1e-8), -10, 10) for x in inputs]
        identity = torch.eye(3, 3 if self.context.team.identity else 0, dtype=torch.float64)
        return [
            torch.cat([torch.tensor(x), identity[agent].expand(*x.shape[:-1], identity.shape[1])], dim=-1)
            for x in inputs
        ]

    def _raw_inputs(self, part, agent):
        batch = self.context.batch
        inputs = batch.of(batch.observations, agent), batch.of(batch.cut_observations, agent)
        if part == "critic" and self.centralised:
            both = self.config.critic_input == "state+observation"
            own = inputs if both else [x[..., :0] for x in inputs]
            inputs = [np.concatenate(pair, axis=-1) for pair in zip((batch.state, batch.cut_state), own, strict=True)]
        elif part == "critic":  # zeros if the agent is dead
            left = (batch.alive[agent] & ~batch.terminated[agent])[tuple(batch.cut.T)]
            inputs = inputs[0] * batch.alive[agent][..., None], inputs[1] * left[:, None]
        return inputs

    def _raw(self, values):
        mean, square, weight = self.seen
        if weight == 0:
            return values
        return values * max(square / weight - (mean / weight) ** 2, 0.01) ** 0.5 + mean / weight

    def estimate(self):
        """Old values, advantages and targets ``[T, E]`` of every agent, and the normaliser's next state."""
        batch, config = self.context.batch, self.config
        self.begins = torch.ones(batch.ended.shape, dtype=torch.bool)
        self.begins[1:] = torch.tensor(batch.ended[:-1])
        self.value, self.advantage, alive, valued, errors = {}, {}, {}, {}, {}
        self._compare_policies()
        with torch.no_grad():
            for agent in self.agents:
                inputs, cut = self._inputs("critic", agent)
                outputs, _, after = self.critic.unrolled(inputs, self.begins, self.critic.empty(inputs.shape[1]))
                self.value[agent] = outputs[..., 0]
                following = {
                    (t, e): self._raw(self.critic.after(x[None], after[t, e][None])[0][0, 0])
                    for (t, e), x in zip(batch.cut.tolist(), cut, strict=True)
                }
                estimates = self._estimates(agent, self._raw(self.value[agent]), following)
                self.advantage[agent], errors[agent] = estimates
                alive[agent] = torch.tensor(batch.alive[agent])
                steps, num_envs = (range(size) for size in batch.ended.shape)
                valued[agent] = torch.tensor([[self.counts("critic", agent, t, e) for e in num_envs] for t in steps])
            targets = {agent: errors[agent] + self._raw(self.value[agent]) for agent in self.agents}
            pooled = torch.cat([targets[agent][valued[agent]] for agent in self.agents])
            mean, square, weight = self.seen
            decay = config.value_decay
            self.seen = (
                decay * mean + (1 - decay) * pooled.mean().item(),
                decay * square + (1 - decay) * (pooled**2).mean().item(),
                decay * weight + 1 - decay,
            )
            centre, scale = self._raw(0.0), self._raw(1.0) - self._raw(0.0)
            self.target = {agent: (targets[agent] - centre) / scale for agent in self.agents}
            pooled = torch.cat([self.advantage[agent][alive[agent]] for agent in self.agents])
            self.advantage = {
                agent: (self.advantage[agent] - pooled.mean()) / (pooled.std(unbiased=False) + 1e-8)
                for agent in self.agents
            }

    @torch.no_grad()
    def _compare_policies(self):
        """Compute the references of actions' log-probabilities, and the weight ``[T, E]`` of every agent's steps."""
        batch, cap = self.context.batch, CAPS.get(self.config.correction) if self.context.age else None
        self.old = {agent: torch.tensor(batch.of(batch.log_probability, agent)) for agent in self.agents}
        self.weight = {agent: torch.ones_like(self.factor) for agent in self.agents}
        for agent in self.agents if cap else ():
            inputs = self._inputs("policy", agent)[0]
            outputs = self.policy.unrolled(inputs, self.begins, self.policy.empty(inputs.shape[1]))[0]
            for t, e in zip(*np.nonzero(batch.alive[agent]), strict=True):
                ratio = self._ratio_of(self._distributions(outputs[t, e], agent, t, e), agent, t, e)
                self.weight[agent][t, e] = min(cap, ratio)
                self.old[agent][t, e] += torch.log(ratio)

    def _estimates(self, agent, values, following):
        """Advantages before their weights, and value targets less values: GAE, or V-trace with λ as rlax has it."""
        batch, config = self.context.batch, self.config
        found, errors = torch.zeros_like(values), torch.zeros_like(values)
        side, team = self.side[agent], config.reward == "team"
        traced = self.context.age and config.correction == "vtrace"
        for e in range(values.shape[1]):
            error = 0.0
            for t in reversed([t for t in range(len(values)) if self.counts("critic", agent, t, e)]):
                left = [other for other in side if batch.alive[other, t, e] and not batch.terminated[other, t, e]]
                nothing = not left if team else batch.terminated[agent, t, e]
                stop = nothing or batch.ended[t, e]
                if config.time_limit == "terminal" and batch.ended[t, e]:
                    nothing = True
                reward = batch.rewards[side, t, e].sum() if team else batch.rewards[agent, t, e]
                after = 0.0 if nothing else following[t, e] if (t, e) in following else values[t + 1, e]
                weight, target = self.weight[agent][t, e] if traced else 1.0, after + (0.0 if stop else error)
                bootstrap = config.gae_lambda * target + (1 - config.gae_lambda) * after
                found[t, e] = reward + config.gamma * bootstrap - values[t, e]
                error = weight * (
                    reward + config.gamma * after - values[t, e] + config.gamma * config.gae_lambda * (target - after)
                )
                errors[t, e] = error
        return found, errors

    def pieces(self, network, part):
        """The shuffled units ``(agent, environment, steps, state before)``: single living rows or living segments."""
        batch = self.context.batch
        steps, num_envs = batch.ended.shape
        if not self.config.recurrent:
            return [
                (agent, e, [t], torch.zeros(0, dtype=torch.float64))
                for agent in self.agents
                for t, e in itertools.product(range(steps), range(num_envs))
                if self.counts(part, agent, t, e)
            ]
        before = {}
        with torch.no_grad():
            for agent in self.agents:
                inputs, _ = self._inputs(part, agent)
                # The state after the step before. The start of an episode resets it while the segment is unrolled.
                after = network.unrolled(inputs, self.begins, network.empty(num_envs))[2]
                before[agent] = torch.cat([network.empty(num_envs)[None], after])
        chunks = [
            list(range(start, min(start + self.config.data_chunk_length, steps)))
            for start in range(0, steps, self.config.data_chunk_length)
        ]
        return [
            (agent, e, chunk, before[agent][chunk[0], e])
            for chunk in chunks
            for agent in self.agents
            for e in range(num_envs)
            if any(self.counts(part, agent, t, e) for t in chunk)
        ]

    def _minibatches(self, part, number, pieces):
        rng, count = generator(self.context.seed, number, part, self.group), self.config.num_minibatches
        bounds = [int(k * pieces / count) for k in range(count + 1)]
        for _ in range(self.config.epochs):
            order = rng.permutation(pieces).tolist()
            yield from (order[start:end] for start, end in itertools.pairwise(bounds))

    def loss_of(self, pieces, network, loss):
        """The mean over the living rows of some units, each unrolled alone."""
        part, losses, every = network.part, [], {agent: self._inputs(network.part, agent)[0] for agent in self.agents}
        for agent, e, steps, state in pieces:
            outputs, _, _ = network.unrolled(
                every[agent][steps, e][:, None], self.begins[steps, e][:, None], state[None]
            )
            losses += [
                loss(outputs[place, 0], agent, t, e) for place, t in enumerate(steps) if self.counts(part, agent, t, e)
            ]
        assert part in ("policy", "critic")
        return torch.stack(losses).mean()

    def _distributions(self, outputs, agent, t, e):
        if self.kind.continuous:
            return [torch.distributions.Normal(outputs, self.policy.named["log_std"].exp())]
        masks = self.context.batch.masks
        legal = None if masks is None else torch.tensor(self.context.batch.of(masks, agent)[t, e])
        outputs = outputs if legal is None else torch.where(legal, outputs, -1e9)
        sizes = self.kind.branches or (self.kind.actions,)
        return [torch.distributions.Categorical(logits=part) for part in outputs.split(sizes)]

    def policy_loss(self, outputs, agent, t, e):
        config, parts = self.config, self._distributions(outputs, agent, t, e)
        ratio = self._ratio_of(parts, agent, t, e)
        gain = self.advantage[agent][t, e] * self.factor[t, e]
        surrogate = torch.min(ratio * gain, torch.clamp(ratio, 1 - config.clip_coef, 1 + config.clip_coef) * gain)
        surrogate = self.weight[agent][t, e] * surrogate
        return -surrogate - config.ent_coef * sum(part.entropy().sum() for part in parts)

    def _ratio_of(self, parts, agent, t, e):
        """The probability of the agent's action over that when it was taken, or when the round of old data began."""
        batch = self.context.batch
        action = torch.atleast_1d(torch.tensor(batch.of(batch.actions, agent)[t, e]))
        components = [action] if self.kind.continuous else list(action.long())
        log_p = sum(part.log_prob(taken).sum() for part, taken in zip(parts, components, strict=True))
        return torch.exp(log_p - self.old[agent][t, e])

    @torch.no_grad()
    def _ratio(self):
        """The product of the ratios of the group's living agents ``[T, E]``, by its policy as it is now, on inputs as
        the round had them."""
        found = torch.ones_like(self.factor)
        for agent in self.agents:
            inputs = self._inputs("policy", agent)[0]
            outputs = self.policy.unrolled(inputs, self.begins, self.policy.empty(inputs.shape[1]))[0]
            for t, e in zip(*np.nonzero(self.context.batch.alive[agent]), strict=True):
                found[t, e] *= self._ratio_of(self._distributions(outputs[t, e], agent, t, e), agent, t, e)
        return found

    def _value_loss(self, outputs, agent, t, e):
        config, value, old = self.config, outputs[0], self.value[agent][t, e]
        held = old + torch.clamp(value - old, -config.value_clip, config.value_clip)
        free, kept = (
            torch.nn.functional.huber_loss(x, self.target[agent][t, e], delta=config.huber_delta) for x in (value, held)
        )
        self.value_clipped |= bool(kept > free)
        return torch.max(free, kept)

    def tensors(self):
        normaliser = {f"normaliser/g{self.group:02d}": np.array(self.seen)}
        return self.policy.tensors() | self.critic.tensors() | normaliser | self._statistics()

    def compare(self, made):
        """Fail unless the tensors `made` equal this computation's, up to rounding in double precision."""
        for key, wanted in self.tensors().items():
            found = made[key].reshape(wanted.shape)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max(), err_msg=key)

    def _statistics(self):
        if not self.config.normalise_observations:
            return {}
        known = {part: np.concatenate(rows) for part, rows in self.inputs_so_far.items()}
        return {
            f"{part}/g{self.group:02d}/seen": np.stack(
                [np.full(rows.shape[1], float(len(rows))), rows.mean(axis=0), len(rows) * rows.var(axis=0)]
            )
            for part, rows in known.items()
        }
