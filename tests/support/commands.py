"""The command line for tests, and a run that takes a fraction of a second."""

from dataclasses import dataclass

from shell import Shell

from marless.cli.app import main

SMALL = (
    "task.name=toy/signal",
    "algorithm.hidden=[8]",
    "actors.num_envs=8",
    "evaluation.every=2",
    "evaluation.episodes=4",
    "evaluation.final_episodes=4",
    "stop.rounds=4",
)


@dataclass(frozen=True)
class Said:
    code: int
    out: list[str]
    err: list[str]


class Commands:
    def __init__(self, capfd):
        self._capfd = capfd

    def __call__(self, *argv):
        self._capfd.readouterr()
        code = main(argv)
        written = self._capfd.readouterr()
        return Said(code, written.out.splitlines(), written.err.splitlines())

    def train(self, name, *settings):
        return self("train", *SMALL, *settings, "--run", name, "--workers", "1")


def train_in(folder, name, *settings):
    """Trains a small run for the tests of a file, which copy the folder's `runs`, and returns those."""
    with Shell() as shell:
        shell.cd(folder)
        assert main(["train", *SMALL, *settings, "--run", name, "--workers", "1"]) == 0
    return folder / "runs"
