"""A base's tokenizer: the tokens equal the text's tokens for any file, and no part of a text vanishes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

tokenizers = pytest.importorskip("tokenizers")

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors  # noqa: E402

from marless_language.errors import UnusableBase, Unwritable  # noqa: E402
from marless_language.model.text_tokenizer import tokenizer_of  # noqa: E402

PAIRS = {piece: number for number, piece in enumerate(["\n", " ", "a", "b", "c", "ab", "bc", "abc"])}
MERGES = [("a", "b"), ("b", "c"), ("ab", "c")]


def pairs(**settings: Any) -> Any:
    """A tokenizer that knows a, b and c, and merges them."""
    return tokenizers.Tokenizer(models.BPE(PAIRS, MERGES, **settings))


def changed(tokenizer: Any, change: Callable[[dict[str, Any]], object]) -> str:
    document = json.loads(tokenizer.to_str())
    change(document)
    return json.dumps(document)


def test_texts_are_never_cut_padded_split_or_marked():
    tokenizer = pairs(dropout=0.5)
    tokenizer.add_special_tokens([AddedToken("<s>"), AddedToken("<pad>")])
    tokenizer.enable_truncation(max_length=2)
    tokenizer.enable_padding(length=9, pad_id=9, pad_token="<pad>")
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A <s>", None, [("<s>", 8)])
    ours = tokenizer_of(tokenizer.to_str())
    # abc, blank, ab, c, a new line.
    assert all(ours.encode("abc abcc\n") == [7, 1, 7, 4, 0] for _ in range(20))
    assert ours.decode([7, 8]) == "abc <s>"


@pytest.mark.parametrize("text", ["aéb", "é", "abc—", "\U0001f642", "a\u200bb", "abC"])
def test_a_character_without_a_token_does_not_vanish(text: str):
    with pytest.raises(Unwritable, match="the vocabulary has no token for"):
        tokenizer_of(pairs().to_str()).encode(text)


@pytest.mark.parametrize(
    "normalizer",
    [
        normalizers.Replace("c", ""),
        normalizers.Sequence([normalizers.Prepend("a"), normalizers.Replace("c", "")]),
        normalizers.Replace(tokenizers.Regex("[c-z]"), ""),
    ],
)
def test_character_removed_before_splitting_does_not_vanish(normalizer: Any):
    tokenizer = pairs()
    tokenizer.normalizer = normalizer
    ours = tokenizer_of(tokenizer.to_str())
    assert ours.encode("ab")[-1] == 5
    with pytest.raises(Unwritable, match="no token for 'c'"):
        ours.encode("abc")


@pytest.mark.parametrize(
    ("part", "setting"),
    [
        ("ab", ("normalizer", normalizers.Replace("ab", ""))),
        ("a", ("normalizer", normalizers.Replace(tokenizers.Regex("a(?=b)"), ""))),
        ("ab", ("pre_tokenizer", pre_tokenizers.Split("ab", "removed"))),
        ("b", ("pre_tokenizer", pre_tokenizers.Split(tokenizers.Regex("b(?=c)"), "removed"))),
    ],
)
def test_characters_removed_next_to_others_do_not_vanish(part: str, setting: tuple[str, Any]):
    tokenizer = pairs()
    setattr(tokenizer, *setting)
    ours = tokenizer_of(tokenizer.to_str())
    assert ours.encode("a c\nb") == [2, 1, 4, 0, 3]
    with pytest.raises(Unwritable, match=f"no token for '{part}'"):
        ours.encode("c abc")


def test_characters_that_become_one_do_not_vanish():
    tokenizer = tokenizers.Tokenizer(models.BPE({"e": 0, "\u00e9": 1, "\u0301": 2}, []))
    tokenizer.normalizer = normalizers.NFC()
    assert tokenizer_of(tokenizer.to_str()).encode("ee\u0301") == [0, 1]


def test_file_that_makes_package_panic_is_one_line():
    def prefix(document: dict[str, Any]) -> None:
        document["model"] |= {"continuing_subword_prefix": "##", "unk_token": "a"}

    with pytest.raises(UnusableBase, match="its tokenizer cannot be read: slice index"):
        tokenizer_of(changed(pairs(), prefix), "its tokenizer")


def test_tokens_at_which_the_package_panics_are_named():
    tokenizer = pairs()
    tokenizer.decoder = decoders.Strip("a", 1, 1)
    ours = tokenizer_of(tokenizer.to_str())
    with pytest.raises(Unwritable, match=r"the vocabulary cannot read tokens \[3, 2\]: slice index"):
        ours.decode([3, 2])


def test_a_character_behind_a_prefix_does_not_vanish():
    tokenizer = tokenizers.Tokenizer(models.BPE({"▁": 0, "a": 1}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    ours = tokenizer_of(tokenizer.to_str())
    assert ours.encode("a a") == [0, 1, 0, 1]
    with pytest.raises(Unwritable, match="no token for 'Z'"):
        ours.encode("a Z")


def test_white_space_vanishes_and_unknown_words_get_token():
    tokenizer = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "say": 1, "it": 2}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert tokenizer_of(tokenizer.to_str()).encode("say  it\nnow") == [1, 2, 0]


def test_missing_token_is_named_without_unknown_token():
    tokenizer = tokenizers.Tokenizer(models.WordLevel({"say": 1, "it": 2}))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    with pytest.raises(Unwritable, match="cannot write 'say now'"):
        tokenizer_of(tokenizer.to_str()).encode("say now")


def test_bytes_stand_for_characters_without_a_token():
    pieces = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"a": 256}
    tokenizer = tokenizers.Tokenizer(models.BPE(pieces, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    ours = tokenizer_of(tokenizer.to_str())
    assert ours.encode("aé") == [256, 0xC3, 0xA9] and ours.decode([256, 0xC3, 0xA9]) == "aé"


def test_characters_of_added_tokens_are_known_only_there():
    tokenizer = pairs()
    tokenizer.add_special_tokens(["<e>"])
    tokenizer.add_tokens([AddedToken("==", normalized=False)])
    ours = tokenizer_of(tokenizer.to_str())
    assert ours.encode("a<e>b==c") == [2, 8, 3, 9, 4]
    for text in ("a<b", "a=b"):
        with pytest.raises(Unwritable):
            ours.encode(text)


def test_texts_of_others_make_no_marks():
    tokenizer = tokenizers.Tokenizer(models.BPE({letter: number for number, letter in enumerate("ab<e>")}, []))
    tokenizer.add_special_tokens(["<e>"])
    ours = tokenizer_of(tokenizer.to_str())
    assert (ours.encode("a<e>"), ours.encode_plain("a<e>"), ours.marks) == ([0, 5], [0, 2, 3, 4], {5})


def test_flags_of_added_tokens_count():
    tokenizer = pairs()
    tokenizer.add_tokens([AddedToken("X", lstrip=True, rstrip=True), AddedToken("Y", single_word=True)])
    ours = tokenizer_of(tokenizer.to_str())
    assert ours.encode("a X b Y") == [2, 8, 3, 1, 9]


def test_size_is_largest_id_plus_one():
    def gap(document: dict[str, Any]) -> None:
        document["model"]["vocab"]["<end>"] = 30
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        document["added_tokens"] = [{"id": 30, "content": "<end>", **flags, "special": True}]

    ours = tokenizer_of(changed(pairs(), gap))
    assert (ours.size, ours.tokens[-2:], ours.encode("a<end>")) == (31, [7, 30], [2, 30])


ADDED = {"content": "!", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file["model"]["vocab"].update({"d": 3}), "model.vocab has 3 2 times"),
        (lambda file: file.update(added_tokens=[{"id": 30, **ADDED}]), "added_tokens"),
        (lambda file: file.update(added_tokens=[{"id": 8, **ADDED, "rank": 2}]), "added_tokens"),
        (lambda file: file.update(chance=0.5), "chance (0.5) is not known"),
        (lambda file: file["model"].update(splits="often"), "model.splits ('often') is not known"),
        (lambda file: file.update(normalizer={"type": "Lowercase", "strip": True}), "normalizer.strip (True)"),
        (lambda file: file.update(normalizer={"type": "Uppercase"}), "cannot be read"),
        (lambda file: file.update(pre_tokenizer={"type": "Split", "pattern": {"Regex": "((("}}), "cannot be read"),
        (lambda file: file["model"]["merges"].append(["q", "z"]), "cannot be read"),
        (lambda file: file["model"].update(type="Neural"), "cannot be read"),
        (lambda file: file["model"].update(vocab={}, merges=[]), "model.vocab has no token"),
        (lambda file: file["model"].update(end_of_word_suffix="</w>"), "cannot be read"),
        (lambda file: file["model"].update(continuing_subword_prefix="##", merges=[]), "parts of words"),
    ],
)
def test_unknown_parts_of_tokenizer_file_are_refused(change: Any, words: str):
    with pytest.raises(UnusableBase) as refusal:
        tokenizer_of(changed(pairs(), change), "tokenizer.json")
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


LONGER = {"type": "Replace", "pattern": {"String": "a"}, "content": 100 * "a"}
NESTED = {"type": "Sequence", "normalizers": [LONGER]}


@pytest.mark.parametrize(
    ("part", "setting"),
    [
        ("normalizer", {"type": "Sequence", "normalizers": [LONGER] * 6}),
        ("normalizer", {"type": "Sequence", "normalizers": [NESTED, {"type": "Lowercase"}, NESTED]}),
        ("normalizer", {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": 100 * "a"}] * 2}),
        ("decoder", {"type": "Sequence", "decoders": [LONGER, {"type": "Fuse"}, LONGER]}),
    ],
)
def test_replacements_that_make_texts_far_longer_are_refused(part: str, setting: dict[str, Any]):
    with pytest.raises(UnusableBase, match=f"{part} makes texts over 64 times as long"):
        tokenizer_of(changed(pairs(), lambda file: file.update({part: setting})))


@pytest.mark.parametrize("text", ["", "[" * 100_000, '"x"', "{}", '{"model": 3}', '{"symbols": ["a", "a"]}'])
def test_invalid_vocabularies_are_refused_in_one_line(text: str):
    with pytest.raises(UnusableBase, match="the base's tokenizer cannot be read") as refusal:
        tokenizer_of(text)
    assert "\n" not in str(refusal.value)


def test_older_files_with_merges_as_texts_are_read():
    text = changed(pairs(), lambda file: file["model"].update(merges=["a b", "b c", "ab c"]))
    assert tokenizer_of(text).encode("abc") == [7]
