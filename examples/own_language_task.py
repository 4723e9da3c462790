"""Write a language task: a speaker sees an animal and says a sound, and a listener hears it and names the animal. Both
get 1 for the right animal. The sounds mean nothing at first, so the two roles have to agree on a meaning."""

import numpy as np

import marless
from marless.language import LanguageTask, Outcome, Symbols, Turn, check, single_tokens

ANIMALS, SOUNDS = ("cat", "dog", "owl"), ("ba", "di", "ku", "mo")


class Signals(LanguageTask):
    """E episodes of two turns. Each prompt is one token, and so is each reply."""

    roles, sides, turns, context = ("speaker", "listener"), (), 2, 2

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.animals, self.sounds = single_tokens(tokenizer, ANIMALS), single_tokens(tokenizer, SOUNDS)

    def reset(self, rng, episodes, copies=1):
        """Show the speakers their animals. `copies` consecutive episodes have the same animal."""
        self.animal = self.animals[rng.integers(len(ANIMALS), size=episodes // copies).repeat(copies)]
        self.is_over = False
        return Turn(role=0, prompts=self.animal[:, None], allowed=np.sort(self.sounds), length=1)

    def reply(self, replies):
        """Show the sounds to the listeners, and then pay both roles."""
        if not self.is_over:
            self.is_over = True
            return Turn(role=1, prompts=replies, allowed=np.sort(self.animals), length=1)
        is_right = (replies[:, 0] == self.animal).astype(float)
        return Outcome(rewards=np.stack([is_right, is_right], axis=1), metrics={"right": is_right})


def make(tokenizer) -> LanguageTask:
    """Return the task with the vocabulary of a language model, or with its default symbols."""
    return Signals(tokenizer or Symbols((*ANIMALS, *SOUNDS)))


def main(rounds: int = 60) -> None:
    """Check the task, train it and print its share of right replies."""
    check(lambda: make(None))
    run = marless.train(make, "grpo", rounds=rounds)
    share = run.summary.final_return.mean / len(Signals.roles)
    print(f"right in {share:.2f} of the episodes; random replies are right in {1 / len(ANIMALS):.2f}")


if __name__ == "__main__":
    main()
