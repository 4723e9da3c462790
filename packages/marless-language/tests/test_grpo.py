"""GRPO against its formulas, written out row by row in double precision."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from small_bases import SHAPE, merged, plain_logits, random_adapter, random_base  # noqa: E402

from marless.functions.nn import gumbel  # noqa: E402
from marless.functions.randomness import generator  # noqa: E402
from marless_language import grpo  # noqa: E402
from marless_language.adapter_layout import AdapterLayout  # noqa: E402
from marless_language.experience import Replies  # noqa: E402
from marless_language.grpo import advantages  # noqa: E402
from marless_language.grpo_gradient import gradient_sums  # noqa: E402
from marless_language.model.sampling import sample  # noqa: E402
from marless_language.model.speaker import ROWS, Speaker  # noqa: E402
from marless_language.protocol import Turn  # noqa: E402

LAYOUT = AdapterLayout(SHAPE, 2, 2)
ALLOWED = np.array([1, 4, 5, 10], np.int32)
ADAPTER = random_adapter(LAYOUT)


@dataclass(frozen=True)
class Settings:
    clip_coef: float = 0.2
    clip_coef_high: float = 0.28
    kl_coef: float = 0.0
    ent_coef: float = 0.0
    scale: Literal["none", "std"] = "none"
    lr: float = 1e-3
    max_grad_norm: float = 1.0


def replies(groups: int = 6, copies: int = 4, length: int = 3, seed: int = 0, role: int = 0) -> Replies:
    """Some are alike. Another policy wrote them, so that clips bind."""
    rng, n = generator(seed, "replies"), groups * copies
    prompts = rng.integers(SHAPE.vocabulary, size=(groups, 5)).repeat(copies, axis=0)
    written = rng.choice(ALLOWED, size=(n, length))
    written[1::2] = written[::2]
    mask = np.arange(length) < rng.integers(1, length + 1, size=(n, 1))
    mask[1::2] = mask[::2]
    written[~mask] = 10
    behaviour = np.where(mask, -rng.uniform(0.2, 3, size=(n, length)), 0)
    behaviour[1::2] = behaviour[::2]
    tokens = np.concatenate((prompts, written), axis=1).astype(np.int32)
    reward = rng.choice([0.0, 1.0, 0.3], size=n)
    return Replies(role, 0, tokens, 5, ALLOWED, behaviour.astype(np.float32), mask, reward, copies)


def with_legal(part: Replies, seed: int = 0) -> Replies:
    """Each reply may consist of some tokens alone, its own among them. A third of the roles were not asked."""
    rng, written = generator(seed, "legal"), part.tokens[:, part.prompt :]
    legal = (rng.random((len(written), len(ALLOWED))) < 0.5) | (written[:, :, None] == ALLOWED).any(axis=1)
    asked = np.arange(len(written)) % 3 > 0
    return part._replace(legal=legal & asked[:, None], mask=part.mask & asked[:, None])


def with_common(part: Replies) -> Replies:
    tokens = part.tokens.copy()
    tokens[:, :3] = tokens[0, :3]
    return part._replace(tokens=tokens, common=3)


def plain_gradient(settings: Settings, parts: list[Replies]) -> tuple[np.ndarray, float]:
    """The gradient and the loss of all rows, one after another, not yet divided."""
    flat = torch.from_numpy(ADAPTER).double().requires_grad_()
    matrices = {e.name: flat[e.start : e.stop].view(e.shape) for e in LAYOUT.entries}
    weights, base = merged(random_base(), LAYOUT, matrices), {n: t.double() for n, t in random_base().weights.items()}
    loss = torch.zeros((), dtype=torch.float64)
    for part in parts:
        for first in range(0, len(part.reward), part.copies):
            rows = [row for row in range(first, first + part.copies) if part.mask[row].any()]
            rewards = part.reward[rows]
            for row in rows:
                advantage = part.reward[row] - rewards.mean()
                if settings.scale == "std":
                    advantage /= (rewards.std(ddof=1) if len(rows) > 1 else 0.0) + 1e-4
                loss = loss - _gain(settings, part, row, float(advantage), weights, base)
    (gradient,) = torch.autograd.grad(loss, [flat])
    return gradient.numpy(), loss.item()


def _gain(settings: Settings, part: Replies, row: int, advantage: float, weights: dict, base: dict) -> torch.Tensor:
    tokens, total = part.tokens[row], torch.zeros((), dtype=torch.float64)
    legal = ALLOWED if part.legal is None else ALLOWED[part.legal[row]]
    allowed, length = torch.from_numpy(legal).long(), len(tokens) - part.prompt
    ours, theirs = (
        plain_logits(SHAPE, model, tokens[:-1])[-length:, allowed].log_softmax(1) for model in (weights, base)
    )
    for position in np.flatnonzero(part.mask[row]):
        place = int(np.flatnonzero(tokens[part.prompt + position] == legal)[0])
        now, before = ours[position, place], float(part.log_probability[row, position])
        ratio = (now - before).exp()
        clipped = ratio.clamp(1 - settings.clip_coef, 1 + settings.clip_coef_high)
        total = total + torch.minimum(ratio * advantage, clipped * advantage)
        difference = theirs[position, place] - now
        total = total - settings.kl_coef * (difference.exp() - difference - 1)
        total = total - settings.ent_coef * (ours[position].exp() * ours[position]).sum()
    return total


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(kl_coef=0.1, ent_coef=0.05, scale="std"),
        Settings(clip_coef=0.05, clip_coef_high=5.0, ent_coef=0.3),
    ],
    ids=["plain", "everything", "clip"],
)
@pytest.mark.parametrize(
    "restrict", [lambda part: part, with_legal, with_common], ids=["any token", "legal tokens", "common beginning"]
)
def test_gradients_are_those_of_the_formulas(settings: Settings, restrict: Callable[[Replies], Replies]):
    parts = [restrict(part) for part in (replies(groups=3), replies(groups=2, length=1, seed=1))]
    sums = gradient_sums(Speaker(random_base(), LAYOUT), ADAPTER, settings, parts)
    gradient, loss = plain_gradient(settings, parts)
    assert np.abs(gradient).max() > 0.1
    np.testing.assert_allclose(sums["gradient"], gradient, rtol=1e-4, atol=1e-5 * np.abs(gradient).max())
    assert sums["loss"][0] == pytest.approx(loss, rel=1e-5)
    assert sums["tokens"][0] == 12 * 3 + 8 * 1


def test_step_equals_adam_along_the_mean():
    settings, parts = Settings(), [replies(groups=2), replies(groups=3, seed=2)]
    sums = [gradient_sums(Speaker(random_base(), LAYOUT), ADAPTER, settings, [part]) for part in parts]
    after = grpo.step(settings, grpo.begin(ADAPTER), sums)
    leaf = torch.from_numpy(ADAPTER.copy()).requires_grad_()
    leaf.grad = torch.from_numpy((plain_gradient(settings, parts)[0] / (5 * 4 * 3)).astype(np.float32))
    torch.nn.utils.clip_grad_norm_([leaf], settings.max_grad_norm)
    torch.optim.Adam([leaf], settings.lr).step()
    # A step of Adam is lr times a sign at first, so that entries near 0 say nothing.
    clear = np.abs(leaf.grad.numpy()) > 1e-4
    assert clear.mean() > 0.5
    np.testing.assert_allclose(after.adapter[clear], leaf.detach().numpy()[clear], rtol=1e-4, atol=1e-7)
    assert after.steps == 1


def test_a_round_in_parts_is_the_round():
    settings, whole = Settings(ent_coef=0.01), replies(groups=6)
    parts = [
        whole._replace(**{name: getattr(whole, name)[rows] for name in ("tokens", "log_probability", "mask", "reward")})
        for rows in (slice(0, 8), slice(8, 24))
    ]
    speaker = Speaker(random_base(), LAYOUT)
    together = gradient_sums(speaker, ADAPTER, settings, [whole])
    apart = [gradient_sums(Speaker(random_base(), LAYOUT), ADAPTER, settings, [part]) for part in parts]
    total = sum(part["gradient"].astype(np.float64) for part in apart)
    np.testing.assert_allclose(total, together["gradient"], rtol=1e-4, atol=1e-6 * np.abs(total).max())
    # Equal sums have equal bytes after any history.
    for number, part in enumerate(parts):
        again = gradient_sums(speaker, ADAPTER, settings, [part])
        assert all(again[name].tobytes() == array.tobytes() for name, array in apart[number].items())


def test_threads_change_no_gradient():
    part = replies(groups=2 * ROWS)
    alone, shared = (
        gradient_sums(Speaker(random_base(), LAYOUT, threads=threads), ADAPTER, Settings(kl_coef=0.1), [part])
        for threads in (1, 3)
    )
    assert alone["gradient"].any()
    assert all(np.array_equal(alone[name], shared[name]) for name in alone)


def test_equal_replies_are_computed_once():
    calls = []

    class Observed(Speaker):
        def top(self, hidden, adapter, last, opening):
            calls.append(len(hidden))
            return super().top(hidden, adapter, last, opening)

    part, settings = replies(groups=2, copies=16, length=1), Settings(ent_coef=0.1)
    part.tokens[:] = part.tokens[0]
    part.log_probability[:], part.mask[:] = part.log_probability[0], True
    sums = gradient_sums(Observed(random_base(), LAYOUT), ADAPTER, settings, [part])
    assert len(calls) == 1
    gradient, _ = plain_gradient(settings, [part])
    np.testing.assert_allclose(sums["gradient"], gradient, rtol=1e-4, atol=1e-5 * np.abs(gradient).max())


def test_prompts_and_text_after_end_have_no_gradient():
    # A reply with the advantage 0 has no gradient, and masked tokens may have any value.
    speaker, part = Speaker(random_base(), LAYOUT), replies()
    equal = part._replace(reward=np.ones_like(part.reward))
    assert not gradient_sums(speaker, ADAPTER, Settings(), [equal])["gradient"].any()
    silent = part._replace(mask=np.zeros_like(part.mask))
    assert not gradient_sums(speaker, ADAPTER, Settings(ent_coef=1, kl_coef=1), [silent])["gradient"].any()


@pytest.mark.parametrize(("masked", "common"), [(False, 0), (True, 0), (False, 3)])
def test_one_token_replies_keep_their_sampled_probabilities(masked: bool, common: int):
    n, prompts = 24, generator(0, "prompts").integers(SHAPE.vocabulary, size=(24, 5)).astype(np.int32)
    prompts[:, :common] = prompts[0, :common]
    noise = gumbel.noise(generator(0, "noise").random((n, 1, len(ALLOWED)), dtype=np.float32))
    legal = generator(0, "legal").random((n, len(ALLOWED))) < 0.5 if masked else None
    turn = Turn(0, prompts, ALLOWED, 1, legal=legal, common=common)
    asked = turn.is_asked
    turn, noise, n = turn.of_episodes(asked), noise[asked], int(asked.sum())
    drawn = sample(Speaker(random_base(), LAYOUT), ADAPTER, turn, noise)
    tokens = np.concatenate((turn.prompts, drawn.replies), axis=1)
    part = Replies(0, 0, tokens, 5, ALLOWED, drawn.log_probability, drawn.mask, np.zeros(n), 1, turn.legal, common)
    sums = gradient_sums(Speaker(random_base(), LAYOUT), ADAPTER, Settings(), [part])
    assert sums["kl"][0] == 0 and sums["written"][0] == n


def test_two_roles_of_one_adapter_add_up():
    speaker, parts = Speaker(random_base(), LAYOUT), [replies(), replies(seed=3, role=1)]
    both = gradient_sums(speaker, ADAPTER, Settings(), parts)
    each = [gradient_sums(speaker, ADAPTER, Settings(), [part]) for part in parts]
    for name in both:
        total = each[0][name].astype(np.float64) + each[1][name]
        np.testing.assert_allclose(both[name], total, rtol=1e-5, atol=1e-6 * np.abs(total).max())


def test_advantages_are_differences_from_the_group():
    rewards = np.array([1.0, 0.0, 0.0, 5.0, 5.0, 5.0])
    np.testing.assert_allclose(advantages(rewards, 3, "none"), [2 / 3, -1 / 3, -1 / 3, 0, 0, 0])
    # The deviation of 1, 0, 0 among n - 1 = 2 is the root of (4 + 1 + 1) / 9 / 2.
    expected = np.array([2, -1, -1]) / 3 / (3**-0.5 + 1e-4)
    np.testing.assert_allclose(advantages(rewards, 3, "std"), [*expected, 0, 0, 0])


def test_reply_is_compared_only_within_its_turn():
    rewards = np.array([1.0, 0.0, 0.5, 1.0, 7.0, 3.0, 4.0, 2.0])
    asked = np.array([False, True, True, False, False, True, False, False])
    expected = [0, -0.25, 0.25, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(advantages(rewards, 4, "none", asked), expected)
    # Of 0 and 0.5 the deviation is the root of an eighth. A single reply differs from none.
    np.testing.assert_allclose(advantages(rewards, 4, "std", asked), np.array(expected) / (8**-0.5 + 1e-4))


@pytest.mark.parametrize("scale", ["none", "std"])
def test_advantages_equal_numpy_means_when_all_were_asked(scale: Literal["none", "std"]):
    rewards = generator(0, "rewards").standard_normal(1000) * 1e3
    groups = rewards.reshape(-1, 8)
    expected = groups - groups.mean(axis=1, keepdims=True)
    expected = expected / (groups.std(axis=1, ddof=1, keepdims=True) + 1e-4) if scale == "std" else expected
    for asked in (None, np.ones(1000, np.bool_)):
        assert advantages(rewards, 8, scale, asked).tobytes() == expected.tobytes()


def test_ungrouped_or_not_finite_rewards_are_refused():
    with pytest.raises(ValueError, match="5 replies are not groups of 2"):
        advantages(np.zeros(5), 2, "none")
    with pytest.raises(ValueError, match="not finite"):
        advantages(np.array([0, np.nan]), 2, "none")


def test_a_round_without_replies_changes_nothing():
    sums = gradient_sums(Speaker(random_base(), LAYOUT), ADAPTER, Settings(), [])
    before = grpo.begin(ADAPTER)
    assert grpo.step(Settings(), before, [sums]) is before
    assert grpo.metrics([sums])["policy_loss"] == 0


def test_metrics_are_means():
    part = replies(groups=2, copies=2, length=2)
    measured = grpo.metrics([gradient_sums(Speaker(random_base(), LAYOUT), ADAPTER, Settings(), [part])])
    assert measured["reward"] == pytest.approx(part.reward.mean())
    assert measured["reply_tokens"] == pytest.approx(part.mask.sum() / 4)
    spread = np.square(advantages(part.reward, 2, "none")).mean() ** 0.5
    assert measured["advantage_spread"] == pytest.approx(spread)
    assert 0 < measured["entropy"] < np.log(4)
