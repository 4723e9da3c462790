"""Random damage to models and tokenizers: the files are read correctly, or refused in one line that names them."""

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest

torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")

from damaged_models import (  # noqa: E402
    DAMAGE,
    Weights,
    damaged_base,
    damaged_folder,
    damaged_gguf,
    model_in_base,
    model_in_folder,
    model_in_gguf,
    whole_folder,
)
from small_bases import SHAPE, base_of, plain_logits, random_base  # noqa: E402

from marless_language.adapter_layout import AdapterLayout  # noqa: E402
from marless_language.base_header import LlamaShape  # noqa: E402
from marless_language.errors import UnusableBase, Unwritable  # noqa: E402
from marless_language.model.base_model import Base, convert, open_base  # noqa: E402
from marless_language.model.speaker import Speaker  # noqa: E402
from marless_language.protocol import Vocabulary  # noqa: E402

TEXTS = ("abc abd", "ab ab", "a b\n", "aéb", "ihgfedcba", "ab—\U0001f642", "")


def read(source: Path) -> Base | None:
    """The base of a source, or None if it is refused, in one line that names the source."""
    try:
        return open_base(source) if source.name == "base" else base_of(convert(source))
    except UnusableBase as refusal:
        assert str(source) in str(refusal) and "\n" not in str(refusal)
        return None


def require_equal(base: Base, shape: LlamaShape, weights: Weights) -> None:
    """The base has exactly these sizes and numbers, and computes with them."""
    assert base.shape == shape and base.weights.keys() == weights.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(base.weights[name].numpy(), array)
    if shape.context < 5 or not all((np.abs(array) < 10).all() for array in weights.values()):
        return
    tokens = np.array([[1, 4, 0, 2, 3]], np.int32)
    speaker = Speaker(base, AdapterLayout(shape, 1, 1))
    with torch.no_grad():
        ours = (
            speaker.top(speaker.trunk(tokens), {}, 5)[0] @ speaker.head(np.arange(shape.vocabulary, dtype=np.int32)).T
        )
    doubles = {name: torch.from_numpy(array).double() for name, array in weights.items()}
    np.testing.assert_allclose(ours.numpy(), plain_logits(shape, doubles, tokens[0]).numpy(), rtol=1e-3, atol=1e-3)


def require_faithful(vocabulary: Vocabulary, text: str) -> None:
    """Tokens equal the package's tokens with nothing cut or dropped by chance. Each character is in them, or the text
    is refused in one line."""
    plain = tokenizers.Tokenizer.from_str(text)
    plain.no_truncation()
    plain.no_padding()
    if isinstance(plain.model, tokenizers.models.BPE):
        plain.model.dropout = None
    for written in TEXTS:
        try:
            tokens = vocabulary.encode(written)
        except Unwritable as refusal:
            assert "\n" not in str(refusal)
            continue
        assert tokens == plain.encode(written, add_special_tokens=False).ids
        kept = vocabulary.decode(tokens).lower()
        assert not plain.decoder or {*written.lower()} - {*kept} <= {*" \n"}, (written, kept)


def examine(kind: str, folder: Path, seed: int) -> bool:
    """Return whether a damaged source is read. Then it must be right."""
    random = Random(f"{kind} {seed}")
    if kind == "gguf":
        source, model = damaged_gguf(folder / "model.gguf", random), model_in_gguf
    elif kind == "base":
        source, model = damaged_base(folder / "base", random), model_in_base
    else:
        source, model = damaged_folder(folder / "model", kind, random), model_in_folder
    base = read(source)
    if base is None:
        return False
    require_equal(base, *model(source))
    try:
        vocabulary = base.tokenizer
    except UnusableBase:
        return True
    if source.is_dir():
        require_faithful(vocabulary, (source / "tokenizer.json").read_text())
    return True


KINDS = (*DAMAGE, "gguf", "base")


def test_a_source_without_damage_is_read(tmp_path: Path):
    source = whole_folder(tmp_path / "model")
    base = read(source)
    assert base is not None and base.tokenizer.encode("abc") == [9, 2]
    require_equal(base, SHAPE, {name: tensor.numpy() for name, tensor in random_base().weights.items()})
    require_faithful(base.tokenizer, (source / "tokenizer.json").read_text())
    assert json.loads((source / "tokenizer.json").read_text())["model"]["dropout"] == 0.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(10, 180), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_random_damage_gives_right_answer_or_one_line(tmp_path_factory, kind: str, seeds: range):
    count = 0
    for seed in seeds:
        try:
            count += examine(kind, tmp_path_factory.mktemp(f"{kind}-{seed}-"), seed)
        except Exception as error:
            raise AssertionError(f"{kind}, seed {seed}: {type(error).__name__}: {error}") from error
    assert count < len(seeds)
