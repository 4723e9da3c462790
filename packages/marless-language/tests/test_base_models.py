"""Bases: made of folders and GGUF files, mapped, and refused in one line where they are none."""

import hashlib
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import msgspec  # noqa: E402
from model_files import change_config, write_gguf  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402
from small_bases import SHAPE, SYMBOLS, base_of, random_adapter, random_base, random_body  # noqa: E402

from marless.functions.randomness import generator  # noqa: E402
from marless_language.adapter_layout import AdapterLayout  # noqa: E402
from marless_language.base_header import read_header  # noqa: E402
from marless_language.errors import UnusableBase  # noqa: E402
from marless_language.model.base_model import convert, open_base  # noqa: E402
from marless_language.model.peft_format import write_adapter, write_base  # noqa: E402
from marless_language.model.pretraining import Pretraining, pretrain  # noqa: E402
from marless_language.model.sampling import sample  # noqa: E402
from marless_language.model.speaker import Speaker  # noqa: E402
from marless_language.model.text_tokenizer import text_of  # noqa: E402
from marless_language.protocol import Lesson, Turn  # noqa: E402

VOCABULARY = text_of(SYMBOLS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a model as Hugging Face lays it out."""
    path = tmp_path / "model"
    path.mkdir()
    write_base(random_base(), path)
    return path


@pytest.fixture
def gguf_path(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "model.gguf")


def test_a_base_of_a_folder_is_the_model(folder: Path):
    body = convert(folder, VOCABULARY)
    assert body == random_body()
    base = base_of(body)
    assert base.shape == SHAPE and (base.context, base.vocabulary) == (32, 11)
    assert base.tokenizer.encode("abc.") == [0, 1, 2, 10] and base.tokenizer.size == 11
    for name, array in load_file(folder / "model.safetensors").items():
        assert np.array_equal(base.weights[name].numpy(), array)


def test_equal_models_are_equal_bytes_in_any_storage(folder: Path):
    arrays = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(arrays, reverse=True)
    save_file({name: arrays[name] for name in names[:9]}, folder / "model-00001-of-00002.safetensors")
    # Older checkpoints hold how fast positions turn: 100^(-2i/6).
    speeds = {"model.layers.0.self_attn.rotary_emb.inv_freq": np.array([1, 0.2154435, 0.0464159], np.float32)}
    save_file({name: arrays[name] for name in names[9:]} | speeds, folder / "model-00002-of-00002.safetensors")
    places = {name: f"model-0000{1 if name in names[:9] else 2}-of-00002.safetensors" for name in [*names, *speeds]}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert convert(folder, VOCABULARY) == random_body()


def test_base_of_gguf_file_equals_model(gguf_path: Path):
    base = base_of(convert(gguf_path))
    assert base.shape == msgspec.structs.replace(SHAPE, rms_epsilon=float(np.float32(1e-5)))
    for name, tensor in random_base().weights.items():
        assert torch.equal(base.weights[name], tensor), name


def test_gguf_tokenizer_splits_digits_and_merges_pairs(gguf_path: Path):
    pytest.importorskip("tokenizers")
    tokenizer = base_of(convert(gguf_path)).tokenizer
    assert tokenizer.encode("ab12<end> aab") == [6, 2, 3, 8, 7, 0, 6]
    assert tokenizer.decode([6, 2, 3, 8, 7, 0]) == "ab12<end> a"


def test_an_open_base_is_mapped_and_shared(tmp_path: Path):
    path = tmp_path / "base"
    path.write_bytes(random_body(msgspec.structs.replace(SHAPE, vocabulary=100_000)))
    base = open_base(path)
    address = base.weights["model.embed_tokens.weight"].data_ptr()
    regions = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))]
    bounds = [tuple(int(part, 16) for part in line.split()[0].split("-")) for line in regions]
    assert any(start <= address < stop for start, stop in bounds)
    assert read_header(path) == base.header


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux alone tells")
def test_processes_share_a_bases_pages(tmp_path: Path):
    path = tmp_path / "base"
    path.write_bytes(random_body(msgspec.structs.replace(SHAPE, vocabulary=400_000)))
    base = open_base(path)
    base.weights["model.embed_tokens.weight"].sum()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        base.weights["model.embed_tokens.weight"].sum()
        os.write(
            writer, str(mapped_kilobytes(path, "Private_Dirty") + mapped_kilobytes(path, "Private_Clean")).encode()
        )
        os._exit(0)
    os.waitpid(child, 0)
    assert mapped_kilobytes(path, "Rss") > 18_000
    assert int(os.read(reader, 20)) < 100


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux alone tells")
@pytest.mark.parametrize(("load", "room"), [(open_base, 10), (convert, 10), (convert, 60)])
def test_model_larger_than_memory_is_refused(tmp_path: Path, load: Callable[[Path], object], room: int):
    """In a process that can have so many MB more, of a model of 38."""
    write_base(random_base(msgspec.structs.replace(SHAPE, vocabulary=800_000)), tmp_path)
    (tmp_path / "tokenizer.json").write_text(VOCABULARY)
    path = tmp_path / "model.safetensors" if load is open_base else tmp_path
    if load is open_base:
        path.write_bytes(convert(tmp_path))
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + room * 2**20,) * 2)
        try:
            load(path)
        except UnusableBase as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    assert b"not enough memory" in os.read(reader, 1000)
    os.close(reader)


def mapped_kilobytes(path: Path, kind: str) -> int:
    total, within = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        within = line.endswith(str(path)) if "-" in first else within
        total += int(line.split()[1]) if within and first == f"{kind}:" else 0
    return total


def test_base_is_never_trained_or_changed_on_disk(tmp_path: Path):
    path = tmp_path / "base"
    path.write_bytes(random_body())
    base = open_base(path)
    assert not any(tensor.requires_grad for tensor in base.weights.values())
    base.weights["model.norm.weight"].add_(1)
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(random_body()).digest()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_base_that_is_cut_short_is_refused(tmp_path: Path, share: float):
    path, body = tmp_path / "base", random_body()
    path.write_bytes(body[: int(share * len(body))])
    with pytest.raises(UnusableBase, match=f"{path}"):
        open_base(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.5, 0.99])
def test_truncated_gguf_file_is_refused(gguf_path: Path, share: float):
    gguf_path.write_bytes(gguf_path.read_bytes()[: int(share * gguf_path.stat().st_size)])
    with pytest.raises(UnusableBase, match="cut short or damaged"):
        convert(gguf_path)


def test_other_gguf_files_are_refused(tmp_path: Path):
    with pytest.raises(UnusableBase, match="its tokenizer \\(gpt2, olmo\\) is not among gpt-2, smollm"):
        convert(write_gguf(tmp_path / "other.gguf", fields={"tokenizer.ggml.pre": "olmo"}))
    with pytest.raises(UnusableBase, match="architecture is mamba"):
        convert(write_gguf(tmp_path / "mamba.gguf", "mamba"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model_type": "gpt2"}, "model_type=gpt2 is not supported"),
        ({"attention_bias": True}, "attention_bias=True is not supported"),
        ({"hidden_act": "gelu"}, "hidden_act=gelu"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "scaled rotary positions"),
        ({"hidden_size": "many"}, "hidden_size"),
        ({"vocab_size": 12}, r"has the sizes \[11, 12\], and a model of its shape has the sizes \[12, 12\]"),
        ({"num_hidden_layers": 4}, "model.layers.3.* is not there"),
    ],
)
def test_folders_of_other_models_are_refused(folder: Path, settings: dict[str, object], words: str):
    change_config(folder, **settings)
    with pytest.raises(UnusableBase, match=words) as refusal:
        convert(folder, VOCABULARY)
    assert "\n" not in str(refusal.value)


def test_incomplete_folders_are_refused(folder: Path):
    with pytest.raises(UnusableBase, match=r"has no tokenizer\.json"):
        convert(folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(UnusableBase, match="cut short or damaged"):
        convert(folder, VOCABULARY)
    weights.rename(folder / "pytorch_model.bin")
    with pytest.raises(UnusableBase, match=r"no \.safetensors file; files of other formats can run code"):
        convert(folder, VOCABULARY)
    (folder / "config.json").unlink()
    with pytest.raises(UnusableBase, match=r"has no config\.json"):
        convert(folder, VOCABULARY)


def test_exported_adapters_have_pefts_names_and_sizes(tmp_path: Path):
    layout = AdapterLayout(SHAPE, 2, 1)
    write_adapter(layout, random_adapter(layout), tmp_path, "the/base")
    arrays = load_file(tmp_path / "adapter_model.safetensors")
    prefix = "base_model.model.model.layers.2"
    assert arrays[f"{prefix}.self_attn.k_proj.lora_A.weight"].shape == (2, 12)
    assert arrays[f"{prefix}.mlp.down_proj.lora_B.weight"].shape == (12, 2)
    assert len(arrays) == 14 and all(name.startswith(prefix) for name in arrays)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["layers_to_transform"]) == (2, 2, [2])


def test_a_small_base_learns_what_its_teacher_replies():
    asked = generator(0, "lessons").integers(5, size=(256, 2)).astype(np.int32)
    lesson = Lesson(np.concatenate((asked, 5 + asked[:, :1]), axis=1).astype(np.int32), prompt=2)
    settings = Pretraining(layers=1, hidden=16, heads=2, kv_heads=1, intermediate=32, steps=80, rows=32, lr=3e-2)
    base = base_of(pretrain([lesson], SYMBOLS, 8, 0, settings))
    turn = Turn(0, asked, np.arange(11, dtype=np.int32), 1)
    replies = sample(Speaker(base, AdapterLayout(base.shape, 1, 1)), None, turn, None).replies
    assert (replies == lesson.tokens[:, 2:]).mean() > 0.95


def test_equal_lessons_and_seeds_make_equal_bases():
    lesson = Lesson(generator(0, "lessons").integers(11, size=(20, 5)).astype(np.int32), prompt=3)
    first, again, other = (pretrain([lesson, lesson], SYMBOLS, 8, seed, Pretraining(steps=4)) for seed in (0, 0, 1))
    assert first == again != other
