"""Factories of mixing networks: VDN's sum, QMIX's own with torch's layers, and some that will not do."""

import torch


class Sum(torch.nn.Module):
    def forward(self, utilities, state, alive):
        return utilities.sum(dim=1)


class Qmix(torch.nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.agents, self.embed = shape.agents, shape.mixing_embed_dim
        linear, hidden = torch.nn.Linear, shape.hypernet_embed

        def weights(outputs):
            return torch.nn.Sequential(linear(shape.state, hidden), torch.nn.ReLU(), linear(hidden, outputs))

        self.first_weight, self.last_weight = weights(self.agents * self.embed), weights(self.embed)
        self.first_bias = torch.nn.Sequential(linear(shape.state, self.embed))
        self.last_bias = torch.nn.Sequential(linear(shape.state, self.embed), torch.nn.ReLU(), linear(self.embed, 1))

    def forward(self, utilities, state, alive):
        first = self.first_weight(state).abs().view(-1, self.agents, self.embed)
        hidden = torch.einsum("bn,bnm->bm", utilities, first) + self.first_bias(state)
        last = self.last_weight(state).abs()
        return (torch.nn.functional.elu(hidden) * last).sum(dim=1) + self.last_bias(state)[:, 0]


class Wide(Qmix):
    def forward(self, utilities, state, alive):
        return super().forward(utilities, state, alive)[:, None]


class Endless(Qmix):
    def forward(self, utilities, state, alive):
        return super().forward(utilities, state, alive) / 0


class Deaf(Qmix):
    def forward(self, utilities, state, alive):
        return state.sum(dim=1)


class Lost(Qmix):
    def forward(self, utilities, state, alive):
        return utilities @ torch.ones(99)


class Counted(Qmix):
    def __init__(self, shape):
        super().__init__(shape)
        self.norm = torch.nn.BatchNorm1d(shape.state)


qmix, wide, endless, deaf, lost, counted = Qmix, Wide, Endless, Deaf, Lost, Counted


def add(shape):
    return Sum()


def nothing(shape) -> torch.nn.Module:
    return 3


def broken(shape) -> torch.nn.Module:
    raise RuntimeError("no such width")
