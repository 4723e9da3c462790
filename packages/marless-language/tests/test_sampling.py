"""Replies: their distribution, their end, and their independence from other replies."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy import stats  # noqa: E402
from small_bases import SHAPE, merged, plain_logits, random_adapter, random_base  # noqa: E402

from marless.functions.nn import gumbel  # noqa: E402
from marless.functions.randomness import generator  # noqa: E402
from marless_language.adapter_layout import AdapterLayout  # noqa: E402
from marless_language.errors import UnusableBase  # noqa: E402
from marless_language.model.sampling import sample  # noqa: E402
from marless_language.model.speaker import Speaker  # noqa: E402
from marless_language.protocol import Turn  # noqa: E402

LAYOUT = AdapterLayout(SHAPE, 2, 2)
ALLOWED = np.array([1, 4, 5, 10], np.int32)


def turn(episodes: int, length: int, end: int | None = None, prompt: int = 5, kinds: int = 9, common: int = 0) -> Turn:
    """Prompts of `kinds` kinds."""
    prompts = generator(0, "prompts").integers(SHAPE.vocabulary, size=(kinds, prompt)).astype(np.int32)
    prompts[:, :common] = prompts[0, :common]
    return Turn(0, prompts[np.arange(episodes) % kinds], ALLOWED, length, end, common=common)


def noise(episodes: int, length: int, seed: int = 0) -> np.ndarray:
    return gumbel.noise(generator(seed, "noise").random((episodes, length, len(ALLOWED)), dtype=np.float32))


def speaker() -> Speaker:
    return Speaker(random_base(), LAYOUT)


@pytest.mark.parametrize("common", [0, 3])
@pytest.mark.parametrize("length", [1, 4])
def test_reply_is_independent_of_other_rows(length: int, common: int):
    asked, numbers = turn(90, length, end=10, common=common), noise(90, length)
    adapter = random_adapter(LAYOUT)
    whole = sample(speaker(), adapter, asked, numbers)
    order = generator(0, "order").permutation(90)
    for rows in (np.array([0]), np.array([89]), np.array([40, 7, 7, 41]), np.arange(70), order):
        part = sample(speaker(), adapter, asked._replace(prompts=asked.prompts[rows]), numbers[rows])
        assert np.array_equal(part.replies, whole.replies[rows])
        assert part.log_probability.tobytes() == whole.log_probability[rows].tobytes()


def test_reply_is_unchanged_with_cached_trunk():
    warm, asked, numbers = speaker(), turn(30, 1), noise(30, 1)
    first = sample(warm, None, asked, numbers)
    warm.trunk(np.flip(asked.prompts, axis=1))
    again = sample(warm, None, asked._replace(prompts=asked.prompts[::-1]), numbers[::-1])
    assert again.log_probability[::-1].tobytes() == first.log_probability.tobytes()


def test_token_frequencies_follow_softmax_over_allowed_tokens():
    asked = turn(20_000, 1, kinds=1)
    replies = sample(speaker(), None, asked, noise(20_000, 1)).replies[:, 0]
    weights = {name: tensor.double() for name, tensor in random_base().weights.items()}
    expected = plain_logits(SHAPE, weights, asked.prompts[0])[-1][torch.from_numpy(ALLOWED).long()].softmax(0).numpy()
    counts = [np.count_nonzero(replies == token) for token in ALLOWED]
    assert sum(counts) == 20_000
    assert stats.chisquare(counts, 20_000 * expected).pvalue > 1e-3


@pytest.mark.parametrize(("masked", "common"), [(False, 0), (True, 0), (False, 3)])
@pytest.mark.parametrize("length", [1, 5])
def test_log_probabilities_are_those_of_the_formulas(length: int, masked: bool, common: int):
    adapter, asked = random_adapter(LAYOUT), turn(20, length, common=common)
    legal = generator(0, "legal").random((20, len(ALLOWED))) < 0.5
    legal[:, 0] |= ~legal.any(axis=1)
    legal |= not masked
    asked = asked._replace(legal=legal if masked else None)
    drawn = sample(speaker(), adapter, asked, noise(20, length))
    weights = merged(
        random_base(), LAYOUT, {name: torch.from_numpy(m).double() for name, m in LAYOUT.split(adapter).items()}
    )
    for prompt, may, reply, numbers in zip(asked.prompts, legal, drawn.replies, drawn.log_probability, strict=True):
        logits = plain_logits(SHAPE, weights, np.concatenate((prompt, reply[:-1])))[-length:]
        expected = logits[:, torch.from_numpy(ALLOWED[may]).long()].log_softmax(1).numpy()
        assert np.isin(reply, ALLOWED[may]).all()
        np.testing.assert_allclose(
            numbers, expected[np.arange(length), np.searchsorted(ALLOWED[may], reply)], rtol=2e-5, atol=2e-5
        )


def test_without_noise_the_likeliest_token_is_taken():
    asked = turn(9, 3)
    replies = sample(speaker(), None, asked, None).replies
    weights = {name: tensor.double() for name, tensor in random_base().weights.items()}
    for prompt, reply in zip(asked.prompts, replies, strict=True):
        for position in range(3):
            logits = plain_logits(SHAPE, weights, np.concatenate((prompt, reply[:position])))[-1]
            assert reply[position] == ALLOWED[int(logits[torch.from_numpy(ALLOWED).long()].argmax())]


def test_what_follows_the_end_does_not_count():
    asked = turn(200, 6, end=10)
    drawn = sample(speaker(), None, asked, noise(200, 6))
    lengths = {len(reply[mask]) for reply, mask in zip(drawn.replies, drawn.mask, strict=True)}
    assert lengths == {1, 2, 3, 4, 5, 6}
    for reply, mask, numbers in zip(drawn.replies, drawn.mask, drawn.log_probability, strict=True):
        ends = np.flatnonzero(reply == 10)
        count = ends[0] + 1 if len(ends) else 6
        assert mask[:count].all() and not mask[count:].any()
        assert (reply[count:] == 10).all() and not numbers[count:].any() and numbers[:count].all()
    # Tokens before the end are the same as without an end.
    endless = sample(speaker(), None, asked._replace(end=None), noise(200, 6))
    assert np.array_equal(endless.replies[drawn.mask], drawn.replies[drawn.mask]) and endless.mask.all()


def test_turns_that_the_model_cannot_take_are_refused():
    with pytest.raises(UnusableBase, match="33 tokens: the model reads 32"):
        sample(speaker(), None, turn(2, 3, prompt=30), None)
    with pytest.raises(UnusableBase, match="token 11: the model's vocabulary has 11"):
        sample(speaker(), None, turn(2, 1)._replace(allowed=np.array([3, 11], np.int32)), None)


def test_model_with_outputs_not_finite_is_named():
    base = random_base()
    base.weights["model.norm.weight"][0] = np.inf
    with pytest.raises(UnusableBase, match="not finite"):
        sample(Speaker(base, LAYOUT), None, turn(2, 1), None)
