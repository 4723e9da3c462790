"""The losses' metrics against numbers worked out by hand, their gradients against automatic differentiation."""

import math

import numpy as np
import pytest
import torch

from marless.functions.nn.continuous import Bounds, Gaussian
from marless.functions.nn.discrete import Branches, OneChoice
from marless.functions.nn.losses import clipped_head_loss, clipped_policy_loss, clipped_value_loss, huber

LN2, LN3 = math.log(2), math.log(3)


def mean(loss, name):
    return float(np.mean(loss.rows[name]))


def policy_loss(ratio, advantage, logits=(0.0, 0.0), entropy_weight=0.0, legal=None):
    """One row, action 0 taken, clip 0.2. The old probability is chosen such that the ratio is `ratio`."""
    legal = None if legal is None else np.array([legal])
    legal_outputs = np.array([logits]) if legal is None else np.where(legal, [logits], -np.inf)
    probability = np.exp(legal_outputs[0, 0]) / np.exp(legal_outputs).sum()
    old = np.log([probability / ratio])
    actions = np.array([0])
    return clipped_policy_loss(np.array([logits]), actions, old, np.array([advantage]), 0.2, entropy_weight, legal)


@pytest.mark.parametrize(
    ("ratio", "advantage", "surrogate", "gradient"),
    [
        # With p = (½, ½), d loss / d logits is (g, -g). Here g = -A r (1 - ½), or 0 where the clip binds.
        (1.0, 2.0, -2.0, -1.0),
        (1.1, 2.0, -2.2, -1.1),  # within the clip
        (2.0, 1.0, -1.2, 0.0),  # min(2, 1.2): clipped
        (2.0, -1.0, 2.0, 1.0),  # min(-2, -1.2): not clipped, the step undoes an overshoot
        (0.5, 1.0, -0.5, -0.25),  # min(0.5, 0.8)
        (0.5, -1.0, 0.8, 0.0),  # min(-0.5, -0.8): clipped
        (2.0, 0.0, 0.0, 0.0),
    ],
)
def test_the_clipped_surrogate_takes_the_smaller_branch(ratio, advantage, surrogate, gradient):
    loss = policy_loss(ratio, advantage)
    assert loss.surrogate == pytest.approx(surrogate, abs=1e-12)
    np.testing.assert_allclose(loss.grad_output, [[gradient, -gradient]], atol=1e-12)


def test_step_metrics_equal_hand_computation():
    loss = policy_loss(2.0, 1.0)
    assert mean(loss, "entropy") == pytest.approx(LN2, rel=1e-12)
    assert mean(loss, "clip_fraction") == 1.0  # |2 - 1| > 0.2
    assert mean(loss, "kl") == pytest.approx(2 - 1 - LN2, rel=1e-12)
    assert mean(policy_loss(1.1, 1.0), "clip_fraction") == 0.0


def test_the_entropy_bonus_pulls_towards_the_even_distribution():
    # With p = (¾, ¼), H = ln 4 - ¾ ln 3. Then d(-wH)/dz = w p (ln p + H) = w (3/16 ln 3, -3/16 ln 3).
    loss = policy_loss(1.0, 0.0, logits=(LN3, 0.0), entropy_weight=0.5)
    assert mean(loss, "entropy") == pytest.approx(2 * LN2 - 0.75 * LN3, rel=1e-12)
    np.testing.assert_allclose(loss.grad_output, [[0.5 * 3 / 16 * LN3, -0.5 * 3 / 16 * LN3]], rtol=1e-12)


def test_illegal_action_has_no_part_in_loss():
    # The third logit is large but illegal: two equally likely actions remain.
    loss = policy_loss(1.0, 2.0, (0.0, 0.0, 9.0), 0.1, legal=(True, True, False))
    assert mean(loss, "entropy") == pytest.approx(LN2, rel=1e-12)
    np.testing.assert_allclose(loss.grad_output, [[-1.0, 1.0, 0.0]], atol=1e-12)
    assert loss.grad_output[0, 2] == 0.0


def random_rows(seed, masked, sign, rows=400, actions=5):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((rows, actions))
    taken = rng.integers(actions, size=rows)
    legal = rng.random((rows, actions)) < 0.6 if masked else np.ones((rows, actions), bool)
    legal[np.arange(rows), taken] = True
    legal_outputs = np.where(legal, logits, -1e9)
    log_p = torch.log_softmax(torch.tensor(legal_outputs), dim=1).numpy()[np.arange(rows), taken]
    advantage = sign * np.abs(rng.standard_normal(rows)) if sign else rng.standard_normal(rows)
    return logits, taken, log_p + 0.4 * rng.standard_normal(rows), advantage, legal


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sign", [1, -1, 0])
def test_the_policy_gradient_is_that_of_automatic_differentiation(masked, sign):
    logits, taken, old, advantage, legal = random_rows(3, masked, sign)
    z = torch.tensor(logits, requires_grad=True)
    distribution = torch.distributions.Categorical(logits=torch.where(torch.tensor(legal), z, -1e9))
    ratio = torch.exp(distribution.log_prob(torch.tensor(taken)) - torch.tensor(old))
    gain = torch.tensor(advantage)
    surrogate = -torch.min(ratio * gain, torch.clamp(ratio, 0.8, 1.2) * gain).mean()
    entropy = distribution.entropy().mean()
    (surrogate - 0.03 * entropy).backward()

    loss = clipped_policy_loss(logits, taken, old, advantage, 0.2, 0.03, legal if masked else None)
    np.testing.assert_allclose(loss.grad_output, z.grad.numpy(), rtol=0, atol=1e-12)
    expected = surrogate.item(), entropy.item(), ((ratio - 1).abs() > 0.2).double().mean().item()
    found = (loss.surrogate, mean(loss, "entropy"), mean(loss, "clip_fraction"))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert 0.3 < mean(loss, "clip_fraction") < 0.9  # both branches occurred
    if masked:
        assert (loss.grad_output[~legal] == 0).all()


# old value 0, clip 0.5, huber turns linear at 1: value, target -> loss, gradient
VALUE_ROWS = [
    (0.25, 0.0, 0.03125, 0.25),  # the clip does not bind: ½ 0.25²
    (0.25, 3.0, 2.25, -1.0),  # linear: 2.75 - ½
    (1.0, 1.0, 0.125, 0.0),  # held at 0.5: ½ 0.5² is the larger, and does not depend on the value
    (1.0, 0.0, 0.5, 1.0),  # ½ 1² (where huber turns linear) against ½ 0.5²: the free branch
    (-1.0, -3.0, 2.0, 0.0),  # free 2 - ½ = 1.5, held 2.5 - ½ = 2
    (-1.0, 3.0, 3.5, -1.0),  # free 4 - ½, held 3.5 - ½
    (0.5, 0.25, 0.03125, 0.25),  # the value moved exactly as far as it may
    (0.0, 0.0, 0.0, 0.0),
]


@pytest.mark.parametrize(("value", "target", "expected", "gradient"), VALUE_ROWS)
def test_the_value_loss_takes_the_larger_branch(value, target, expected, gradient):
    loss = clipped_value_loss(np.array([value]), np.zeros(1), np.array([target]), clip=0.5, delta=1.0)
    assert loss.loss == pytest.approx(expected, abs=1e-15)
    np.testing.assert_allclose(loss.grad_output, [[gradient]], atol=1e-15)


def test_batch_value_loss_is_mean_over_rows():
    values, targets, losses, slopes = np.array(VALUE_ROWS).T
    loss = clipped_value_loss(values, np.zeros(8), targets, clip=0.5, delta=1.0)
    assert loss.loss == pytest.approx(losses.sum() / 8, rel=1e-12)
    np.testing.assert_allclose(loss.grad_output, slopes[:, None] / 8, atol=1e-15)


def test_huber_is_quadratic_to_delta_then_linear():
    np.testing.assert_array_equal(
        huber(np.array([0.0, 0.5, -0.5, 1, -1, 2, -2]), 1.0), [0, 0.125, 0.125, 0.5, 0.5, 1.5, 1.5]
    )
    np.testing.assert_array_equal(huber(np.array([2.0, 3.0]), 2.0), [2.0, 4.0])  # ½ 2² and 2 (3 - 1)


@pytest.mark.parametrize(("clip", "delta"), [(0.3, 0.5), (0.3, 10.0), (100.0, 0.5)])
def test_the_value_gradient_is_that_of_automatic_differentiation(clip, delta):
    old, moved, away = np.random.default_rng(4).standard_normal((3, 500))
    values, targets = old + 0.5 * moved, old + away
    v, o, t = torch.tensor(values, requires_grad=True), torch.tensor(old), torch.tensor(targets)
    held = o + torch.clamp(v - o, -clip, clip)
    free_loss, held_loss = (torch.nn.functional.huber_loss(x, t, reduction="none", delta=delta) for x in (v, held))
    expected = torch.max(free_loss, held_loss).mean()
    expected.backward()

    loss = clipped_value_loss(values, old, targets, clip, delta)
    np.testing.assert_allclose(loss.grad_output[:, 0], v.grad.numpy(), rtol=0, atol=1e-12)
    assert loss.loss == pytest.approx(expected.item(), rel=1e-12)
    assert (clip > 1) == (v.grad != 0).all().item()  # rows where the clip binds have zero gradient


def test_gradients_keep_the_precision_of_the_network():
    logits, taken, old, advantage, legal = random_rows(5, True, 0, rows=8)
    single = [x.astype(np.float32) for x in (logits, old, advantage)]
    assert clipped_policy_loss(single[0], taken, single[1], single[2], 0.2, 0.01, legal).grad_output.dtype == np.float32
    assert clipped_value_loss(single[1], single[1], single[2], 0.2, 10.0).grad_output.dtype == np.float32


# Any head


def test_gaussian_loss_equals_hand_computation():
    # Mean 1, standard deviation 2, drawn 3: log p = -1/2 (2/2)^2 - ln 2 - 1/2 ln 2 pi. With half of that old
    # probability the ratio is 2, above the clip. Only the bonus is left. Its gradient at the log deviation is -weight.
    head, log_std = Gaussian(Bounds((-1.0,), (1.0,))), np.array([LN2])
    log_p = -0.5 - LN2 - 0.5 * math.log(2 * math.pi)
    arguments = np.array([[1.0]]), log_std, np.array([[3.0]])
    clipped = clipped_head_loss(head, *arguments, np.array([log_p - LN2]), np.array([1.0]), 0.2, 0.1)
    assert (clipped.surrogate, mean(clipped, "clip_fraction")) == (pytest.approx(-1.2), 1.0)
    assert mean(clipped, "kl") == pytest.approx(2 - 1 - LN2)
    assert mean(clipped, "entropy") == pytest.approx(0.5 + 0.5 * math.log(2 * math.pi) + LN2)
    np.testing.assert_allclose(clipped.grad_output, [[0.0]], atol=1e-15)
    np.testing.assert_allclose(clipped.grad_log_std, [-0.1], rtol=1e-12)
    # With ratio 1 and advantage 3 the gradients are -3 (a - mean) / sd^2 = -3/2 and -3 ((a - mean)^2 / sd^2 - 1) = 0.
    free = clipped_head_loss(head, *arguments, np.array([log_p]), np.array([3.0]), 0.2, 0.0)
    np.testing.assert_allclose(free.grad_output, [[-1.5]], rtol=1e-12)
    np.testing.assert_allclose(free.grad_log_std, [0.0], atol=1e-12)


def random_heads(kind, rows=300):
    rng = np.random.default_rng(7)
    if kind == "numbers":
        head = Gaussian(Bounds((-1.0, -1.0), (1.0, 2.0)))
        return head, rng.standard_normal((rows, 2)), rng.standard_normal(2), 2 * rng.standard_normal((rows, 2)), None
    sizes = (4,) if kind == "one" else (3, 2, 4)
    head, outputs = (OneChoice(4) if kind == "one" else Branches(sizes)), rng.standard_normal((rows, sum(sizes)))
    actions, legal = (
        np.stack([rng.integers(size, size=rows) for size in sizes], axis=1),
        rng.random(outputs.shape) < 0.6,
    )
    legal[np.arange(rows)[:, None], actions + np.cumsum((0, *sizes[:-1]))] = True
    return head, outputs, None, actions[:, 0] if kind == "one" else actions, legal


def torch_distributions(head, outputs, log_std, legal):
    if isinstance(head, Gaussian):
        return [torch.distributions.Independent(torch.distributions.Normal(outputs, log_std.exp()), 1)]
    masked = torch.where(torch.tensor(legal), outputs, -1e9)
    sizes = getattr(head, "sizes", (head.width,))
    return [torch.distributions.Categorical(logits=part) for part in masked.split(sizes, dim=1)]


@pytest.mark.parametrize("kind", ["one", "several", "numbers"])
def test_gradient_of_any_head_equals_automatic_differentiation(kind):
    head, outputs, log_std, actions, legal = random_heads(kind)
    rng = np.random.default_rng(8)
    z = torch.tensor(outputs, requires_grad=True)
    free = None if log_std is None else torch.tensor(log_std, requires_grad=True)
    parts = torch_distributions(head, z, free, legal)
    taken = [torch.tensor(actions)] if len(parts) == 1 else list(torch.tensor(actions).T)
    log_p = sum(part.log_prob(action) for part, action in zip(parts, taken, strict=True))
    old, gain = log_p.detach() + 0.3 * torch.tensor(rng.standard_normal(300)), torch.tensor(rng.standard_normal(300))
    ratio = torch.exp(log_p - old)
    surrogate = -torch.min(ratio * gain, torch.clamp(ratio, 0.8, 1.2) * gain).mean()
    entropy = sum(part.entropy() for part in parts).mean()
    (surrogate - 0.03 * entropy).backward()

    legal_outputs = outputs if legal is None else np.where(legal, outputs, -1e9)
    loss = clipped_head_loss(head, legal_outputs, log_std, actions, old.numpy(), gain.numpy(), 0.2, 0.03)
    np.testing.assert_allclose(loss.grad_output, z.grad.numpy(), rtol=0, atol=1e-12)
    if log_std is not None:
        np.testing.assert_allclose(loss.grad_log_std, free.grad.numpy(), rtol=1e-10)
    expected = surrogate.item(), entropy.item(), ((ratio - 1).abs() > 0.2).double().mean().item()
    found = (loss.surrogate, mean(loss, "entropy"), mean(loss, "clip_fraction"))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert 0.2 < mean(loss, "clip_fraction") < 0.9


def test_one_choice_has_same_loss_by_both_functions():
    logits, taken, old, advantage, legal = random_rows(6, True, 0)
    one = clipped_policy_loss(logits, taken, old, advantage, 0.2, 0.03, legal)
    other = clipped_head_loss(OneChoice(5), np.where(legal, logits, -1e9), None, taken, old, advantage, 0.2, 0.03)
    np.testing.assert_allclose(other.grad_output, one.grad_output, rtol=0, atol=1e-15)
    assert other.grad_log_std is None
    for name in ("kl", "entropy"):
        assert mean(other, name) == pytest.approx(mean(one, name))


def test_any_head_keeps_the_precision_of_the_network():
    head, outputs, log_std, actions, _ = random_heads("numbers", rows=9)
    single = [array.astype(np.float32) for array in (outputs, log_std, actions)]
    report = np.full(9, -2, np.float32), np.ones(9, np.float32)
    loss = clipped_head_loss(head, *single, *report, 0.2, 0.01)
    assert (loss.grad_output.dtype, loss.grad_log_std.dtype) == (np.float32, np.float32)
