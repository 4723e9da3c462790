"""If the placement is independent of slots, the billed operations of a run depend only on its settings. Workers, the
back-end and other runs change nothing."""

import json
from pathlib import Path

import pytest
from studies import setting, study

TINY = (
    "task.name=toy/signal", "actors.num_envs=2", "algorithm.hidden=[4]", "actors.rollouts=2", "stop.rounds=3",
    "evaluation.every=2", "evaluation.episodes=2", "evaluation.final_episodes=4", "checkpoint_every=2",
    "sharing.rule=none",
)  # fmt: skip
REPLAYED = ("algorithm.updates_per_round=2", "algorithm.batch_size=4", "algorithm.buffer_size=1000")
SETTINGS = {
    "packed": ("algorithm.name=mappo", "placement.rule=packed"),
    "split": ("algorithm.name=ippo", "placement.rule=split"),
    "whole-replay": ("algorithm.name=qmix", *REPLAYED, "placement.rule=whole"),
    "fused-replay": ("algorithm.name=iql", *REPLAYED, "placement.rule=fused"),
}
WHERE = (("--workers", "1"), ("--workers", "2"), ("--backend", "inline"))
# Each round: two actors read one object of policies each, the learner two trajectories and its state in two objects. An
# evaluation during training, the final evaluation and the evaluation of the best policies read the policies once each.
PACKED_READS = 3 * (2 * 1 + 2 + 2) + 3


def counts(folder):
    found = {line["name"]: line["quantity"] for line in json.loads((folder / "bill.json").read_text())["lines"]}
    return [found[name] for name in ("lambda requests", "s3 puts", "s3 gets")]


def quantity(lines, name):
    return next(line["quantity"] for line in lines if line["name"] == name)


@pytest.mark.slow
def test_reads_are_billed_equally_for_any_workers(marless, processes):
    study(Path("all.toml"), *(setting(name, own) for name, own in SETTINGS.items()), head='seeds = "1"', base=TINY)
    assert marless("study", "all.toml", "--workers", "3").code == 0
    for name, own in SETTINGS.items():
        beside = counts(next(path for path in Path("studies/all").rglob("bill.json") if name in str(path)).parent)
        for number, options in enumerate(WHERE):
            run = f"{name}-{number}"
            assert marless("train", *TINY, *own, *options, "--run", run).code == 0
            assert counts(Path("runs", run)) == beside, (name, options)
        said = marless("estimate", *TINY, *own, "--workers", "1", "--json")
        estimated = json.loads(said.out[0])["bill"]["lines"]
        assert quantity(estimated, "s3 gets") == beside[2]
        # Items are compressed: made-up replies that were all alike took a fifth less.
        metered = quantity(json.loads(Path("runs", run, "bill.json").read_text())["lines"], "ledger writes")
        assert quantity(estimated, "ledger writes") == pytest.approx(metered, rel=0.1)
        if name == "packed":
            assert beside[2] == PACKED_READS


@pytest.mark.parametrize(
    ("rule", "workers", "slots"), [("balanced", "1", "1 slot"), ("balanced", "2", "2 slots"), ("fused", "2", "")]
)
def test_bill_line_that_depends_on_slots_names_them(marless, rule, workers, slots):
    for command in ("train", "estimate"):
        said = marless(command, *TINY, f"placement.rule={rule}", "--workers", workers)
        assert "what this would cost on AWS Lambda" in "".join(said.out)
        ends = [line.partition("with learners for ")[2] for line in said.out if "with learners for " in line]
        assert ends == ([slots] if slots else [])
