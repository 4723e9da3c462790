"""TRL's GRPO on the prompts of a file. Run as a script by an interpreter that has trl, transformers and peft.

Prints one JSON object and imports no module of this project: ``python trl_loop.py SETTINGS``, JSON.
"""

import json
import os
import sys
import time
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import datasets
import peft
import torch
import transformers
import trl


class Times(transformers.TrainerCallback):  # type: ignore[misc]
    """Seconds and processor seconds from the first step's beginning to the end of each step."""

    def __init__(self) -> None:
        self.seconds, self.processor_s = list[float](), list[float]()

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Nothing before counts."""
        self._began = time.perf_counter(), time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """A step is sampled and learned."""
        self.seconds.append(time.perf_counter() - self._began[0])
        self.processor_s.append(time.process_time() - self._began[1])


def trainer(settings: dict[str, Any], times: Times) -> Any:
    """Return GRPO with our run's settings, as far as TRL has them. It replies with one of the allowed tokens."""
    folder, answers = settings["folder"], settings["answers"]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=f"{folder}/tokenizer.json", pad_token="<|im_end|>", eos_token="<|im_end|>"
    )
    allowed = {tokenizer.encode(text, add_special_tokens=False)[0] for text in settings["allowed"]}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32)

    def is_right(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        return [float(text == answers[prompt]) for prompt, text in zip(prompts, completions, strict=True)]

    # Without a fingerprint, `datasets` computes one. That fails if packages are outside the interpreter's prefix.
    prompts = datasets.table.InMemoryTable.from_pydict({"prompt": [*answers]})

    return trl.GRPOTrainer(
        model=model,
        reward_funcs=is_right,
        args=_settings(settings, [token for token in range(len(tokenizer)) if token not in allowed]),
        train_dataset=datasets.Dataset(prompts, fingerprint="prompts"),
        processing_class=tokenizer,
        callbacks=[times],
        peft_config=peft.LoraConfig(
            r=settings["rank"],
            lora_alpha=settings["rank"],
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
            layers_to_transform=settings["layers"],
            task_type="CAUSAL_LM",
        ),
    )


def _settings(settings: dict[str, Any], suppressed: list[int]) -> Any:
    """Return our run's settings. The tokens that are `suppressed` are never replied."""
    return trl.GRPOConfig(
        output_dir=f"{settings['folder']}/trainer",
        max_steps=settings["rounds"],
        per_device_train_batch_size=settings["episodes"],
        num_generations=settings["copies"],
        max_completion_length=1,
        learning_rate=settings["lr"],
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        weight_decay=0.0,
        loss_type="dr_grpo",
        scale_rewards=False,
        beta=0.0,
        epsilon=0.2,
        epsilon_high=0.28,
        temperature=1.0,
        generation_kwargs={"suppress_tokens": suppressed},
        gradient_checkpointing=False,
        seed=settings["seed"],
        logging_steps=1,
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        report_to=[],
    )


class Computed:
    """Counts the tokens of all forward passes of a model, in sampling and in learning."""

    def __init__(self) -> None:
        self.tokens = 0

    def __call__(self, _: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Count a call, by the hook of a module."""
        tokens = named["input_ids"] if "input_ids" in named else arguments[0]
        self.tokens += tokens.numel()


def main() -> None:
    """Print the tokens that were computed, the rewards of the steps, and their times."""
    settings, times, computed = json.loads(sys.argv[1]), Times(), Computed()
    torch.set_num_threads(settings["threads"])
    grpo = trainer(settings, times)
    grpo.model.get_base_model().register_forward_pre_hook(computed, with_kwargs=True)
    grpo.train()
    lines = [line for line in grpo.state.log_history if "reward" in line]
    print(
        json.dumps(
            {
                "computed": computed.tokens,
                "success": [line["reward"] for line in lines],
                "seconds": times.seconds,
                "processor_s": times.processor_s,
            }
        )
    )


if __name__ == "__main__":
    main()
