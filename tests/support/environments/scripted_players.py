"""Scripted players of tests, and players that break the rules."""

import numpy as np


def first(observations, legal):
    return np.arange(legal.shape[1]) == legal.argmax(axis=1)[:, None]


def first_two(observations, legal):
    return legal & (legal.cumsum(axis=1) <= 2)


def by_sign(observations, legal):
    return observations > 0


def anything(observations, legal):
    return np.ones_like(legal)


def nothing(observations, legal):
    return np.zeros_like(legal)


def fails(observations, legal):
    raise RuntimeError("no idea")


def writes(observations, legal):
    observations[:] = 0
    return legal
