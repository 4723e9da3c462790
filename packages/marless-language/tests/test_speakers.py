"""The forward pass against the same mathematics in double precision, and its independence of other inputs."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import msgspec  # noqa: E402
from small_bases import SHAPE, merged, plain_logits, random_adapter, random_base  # noqa: E402

from marless.functions.randomness import generator  # noqa: E402
from marless_language.adapter_layout import AdapterLayout, initial_adapter  # noqa: E402
from marless_language.base_header import LlamaShape  # noqa: E402
from marless_language.errors import UnusableBase  # noqa: E402
from marless_language.model.base_model import Base  # noqa: E402
from marless_language.model.llama import attention  # noqa: E402
from marless_language.model.speaker import ROWS, Speaker  # noqa: E402

EVERY = np.arange(SHAPE.vocabulary, dtype=np.int32)


def sequences(count: int, length: int, seed: int = 0) -> np.ndarray:
    return generator(seed, "tokens").integers(SHAPE.vocabulary, size=(count, length)).astype(np.int32)


def logits(speaker: Speaker, adapter: np.ndarray | None, tokens: np.ndarray, last: int, common: int = 0) -> np.ndarray:
    """``[n, last, vocabulary]``."""
    with torch.no_grad():
        opening, hidden = speaker.opening(tokens[0, :common]), speaker.trunk(tokens, common)
        outputs = speaker.top(hidden, speaker.matrices(adapter), last, opening)
        return (outputs @ speaker.head(EVERY).T).numpy()


@pytest.mark.parametrize(("layers", "common"), [(1, 0), (3, 0), (1, 3), (3, 2)])
@pytest.mark.parametrize(
    "shape", [SHAPE, msgspec.structs.replace(SHAPE, tied=False, kv_heads=4), msgspec.structs.replace(SHAPE, kv_heads=1)]
)
def test_logits_are_those_of_the_formulas(shape: LlamaShape, layers: int, common: int):
    base = random_base(shape)
    layout = AdapterLayout(shape, 2, layers)
    adapter, tokens = random_adapter(layout), sequences(ROWS, 7)
    tokens[:, :common] = tokens[0, :common]
    weights = merged(base, layout, {name: torch.from_numpy(m).double() for name, m in layout.split(adapter).items()})
    ours = logits(Speaker(base, layout), adapter, tokens, 4, common)
    for row, sequence in zip(ours, tokens, strict=True):
        np.testing.assert_allclose(row, plain_logits(shape, weights, sequence)[-4:].numpy(), rtol=2e-5, atol=2e-5)


def test_a_new_adapter_changes_nothing():
    layout = AdapterLayout(SHAPE, 2, 2)
    speaker = Speaker(random_base(), layout)
    adapter = initial_adapter(layout, generator(0, "adapter"))
    assert np.array_equal(logits(speaker, adapter, sequences(4, 6), 2), logits(speaker, None, sequences(4, 6), 2))


def test_adapters_start_with_variance_of_inverse_inputs():
    shape = msgspec.structs.replace(SHAPE, hidden=200, intermediate=500)
    layout = AdapterLayout(shape, 12, 3)
    for name, matrix in layout.split(initial_adapter(layout, generator(0, "adapter"))).items():
        if name.endswith("lora_B.weight"):
            assert not matrix.any()
        elif matrix.shape[1] >= 200:
            assert matrix.var() * matrix.shape[1] == pytest.approx(1, rel=0.15)  # 4.6 deviations of 2,400 numbers


def test_an_adapter_of_full_rank_is_any_difference():
    # W₀ + B A = W for A = V^T and B = U S of the difference's singular values.
    base, other = random_base(), random_base(seed=1)
    layout = AdapterLayout(SHAPE, 12, 3)
    matrices = {}
    for stem in {entry.name.rsplit("lora_", 1)[0] for entry in layout.entries}:
        difference = (other.weights[f"{stem}weight"] - base.weights[f"{stem}weight"]).double()
        left, values, right = torch.linalg.svd(difference, full_matrices=False)
        rank = len(values)
        into, out = np.zeros((12, right.shape[1])), np.zeros((left.shape[0], 12))
        into[:rank], out[:, :rank] = right.numpy(), (left * values).numpy()
        matrices |= {f"{stem}lora_A.weight": into, f"{stem}lora_B.weight": out}
    rest = {name: tensor for name, tensor in base.weights.items() if "proj" not in name}
    target = Base(base.header, {**other.weights, **rest})
    tokens = sequences(3, 6)
    np.testing.assert_allclose(
        logits(Speaker(base, layout), layout.join(matrices), tokens, 3),
        logits(Speaker(target, layout), None, tokens, 3),
        rtol=1e-4,
        atol=1e-4,
    )


def test_a_flat_adapter_is_its_matrices():
    layout = AdapterLayout(SHAPE, 3, 2)
    adapter = random_adapter(layout)
    assert np.array_equal(layout.join(layout.split(adapter)), adapter)
    # Two layers: the sum of in + out over the seven matrices, times the rank.
    sizes = (24 + 12) + 2 * (12 + 12) + (12 + 24) + 3 * (12 + 20)
    assert layout.size == 2 * 3 * sizes
    with pytest.raises(ValueError, match=f"has {layout.size} numbers"):
        layout.split(adapter[1:])


@pytest.mark.parametrize("common", [0, 4])
def test_trunk_activations_are_independent_of_cache_and_rows(common: int):
    layout, tokens = AdapterLayout(SHAPE, 2, 1), sequences(3 * ROWS + 5, 6)
    tokens[:, :common] = tokens[0, :common]
    whole = Speaker(random_base(), layout).trunk(tokens, common)
    assert whole.shape == (3 * ROWS + 5, 6 - common, SHAPE.hidden)
    warm = Speaker(random_base(), layout)
    warm.trunk(tokens, 3 - common // 2)  # another share of the same texts
    for first in range(0, len(tokens), 7):
        assert torch.equal(warm.trunk(tokens[first : first + 7], common), whole[first : first + 7])
    order = generator(0, "order").permutation(len(tokens))
    cold = Speaker(random_base(), layout, cache_bytes=0)
    for speaker in (warm, cold):
        assert torch.equal(speaker.trunk(tokens[order], common), whole[torch.from_numpy(order)])


def test_common_beginning_is_computed_once_and_latest_kept():
    computed = []

    class Observed(Speaker):
        def _opening(self, tokens):
            computed.append(tokens.tolist())
            return super()._opening(tokens)

    speaker, tokens = Observed(random_base(), AdapterLayout(SHAPE, 2, 1)), sequences(5, 6)
    tokens[:, :4] = tokens[0, :4]
    speaker.trunk(tokens, 4)
    speaker.trunk(tokens[:, ::-1])  # nothing in common
    speaker.trunk(np.concatenate((tokens[:, :4], tokens), axis=1), 4)
    assert computed == [tokens[0, :4].tolist()]
    for number in range(100):
        speaker.opening(np.array([number // 10, number % 10], np.int32))
    speaker.opening(tokens[0, :4])
    assert len(computed) == 102


@pytest.mark.parametrize("last", [False, True])
def test_attention_row_is_independent_of_its_place(last: bool):
    """The products of matrices that attention consists of do, in some layouts."""
    rng, order = torch.Generator().manual_seed(0), torch.tensor([3, 0, 6, 1, 7, 2, 5, 4])
    for positions in range(2, 24):
        rows = [torch.randn(ROWS, positions, heads, 64, generator=rng) for heads in (9, 3, 3)]
        rows[0] = rows[0][:, -1:] if last else rows[0]
        here, there = (
            attention(*(part.transpose(1, 2) for part in every)) for every in (rows, [r[order] for r in rows])
        )
        assert torch.equal(there, here[order]), positions


def test_threads_change_no_activation():
    layout, tokens = AdapterLayout(SHAPE, 2, 1), sequences(3 * ROWS + 5, 6)
    alone, shared = (Speaker(random_base(), layout, threads=threads).trunk(tokens) for threads in (1, 3))
    assert torch.equal(alone, shared) and not shared.requires_grad


def test_trunk_computes_sequence_once_and_keeps_latest():
    computed = []

    class Observed(Speaker):
        def _trunk(self, tokens, common):
            computed.append(len(tokens))
            return super()._trunk(tokens, common)

    row_bytes = 6 * SHAPE.hidden * 4
    speaker, tokens = Observed(random_base(), AdapterLayout(SHAPE, 2, 1), cache_bytes=8 * row_bytes), sequences(8, 6)
    speaker.trunk(np.concatenate((tokens, tokens)))
    speaker.trunk(tokens[:4])
    speaker.trunk(sequences(4, 6, seed=1))  # the four that were used least lately make room
    speaker.trunk(tokens[:4])
    speaker.trunk(tokens[4:])
    assert computed == [8, 4, 4]


def test_roles_and_tenants_never_change_the_base():
    base, layout = random_base(), AdapterLayout(SHAPE, 2, 2)
    before = {name: tensor.clone() for name, tensor in base.weights.items()}
    speaker = Speaker(base, layout)
    alone = [logits(Speaker(base, layout), random_adapter(layout, seed), sequences(3, 5), 1) for seed in range(4)]
    for seed in (3, 0, 2, 1, 3):
        assert np.array_equal(logits(speaker, random_adapter(layout, seed), sequences(3, 5), 1), alone[seed])
    assert all(torch.equal(tensor, base.weights[name]) for name, tensor in before.items())


@pytest.mark.parametrize(
    ("rank", "layers", "words"), [(2, 4, "4 layers: the model has 3"), (2, 0, "0 layers"), (13, 1, "allows 1 to 12")]
)
def test_adapters_without_place_in_model_are_refused(rank: int, layers: int, words: str):
    with pytest.raises(UnusableBase, match=words):
        AdapterLayout(SHAPE, rank, layers)


def test_sequences_that_the_model_cannot_read_are_refused():
    speaker = Speaker(random_base(), AdapterLayout(SHAPE, 2, 1))
    with pytest.raises(UnusableBase, match="33 tokens: the model reads 32"):
        speaker.trunk(sequences(1, 33))
    with pytest.raises(UnusableBase, match="token 11: the model's vocabulary has 11"):
        speaker.trunk(np.array([[3, 11]], np.int32))
