"""Recounts the dollars of runs whose bill left out reads: `docs/results/results-spread-ippo-controls.csv`.

Its runs, of commit b537948, had one worker each, which kept every object, so their bills have no read at all
(docs/decisions/0021). How many objects a run reads follows from its settings and from what its rules decided in each
round. The decisions and evaluations are in `decisions-spread-ippo-controls.json`: every run was trained again by the
same commit in one process (`placement.rule=packed scaling.priced_as=split`, which changes no decision), and came to the
final return of the table, digit for digit. A GET is added for each read; nothing else is changed.

    python -m scripts.recounted_reads RUNS   # writes the file of decisions from the folder with the repeated runs
    python -m scripts.recounted_reads        # writes the csv
"""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from marless.ablation import result_tables
from marless.comparison.finished_run import CostPoint, FinishedRun
from marless.coordinator.placement.placement_rules import Work, split
from marless.coordinator.pricing.prices import load_prices
from marless.functions.algorithms.registry import algorithm

FOLDER = Path("docs/results")
NAME = "spread-ippo-controls"
DECISIONS = FOLDER / f"decisions-{NAME}.json"
# The bills as they were measured.
MEASURED = f"94e148e:docs/results/results-{NAME}.csv"
# Environment steps of a rollout.
STEPS = 100
# Folders of the repeated runs whose names do not follow from the arm's.
REPEATED = {"marless-minus": "none-50", "ours-fixed": "all-10"}
STAGES = algorithm("ippo").stages
PARTS = algorithm("ippo").parts

_MEASURED = (
    *("seconds", "dollars", "actor", "learner", "evaluator", "requests", "storage"),
    *("rollouts", "learners", "sharing", "final_return"),
)

Team = tuple[int, ...]
Locations = dict[tuple[str, int], tuple[str, str]]
"""Of each part of each group, the work that wrote it and the kind of object."""


def reads_by_round(rounds: Sequence[tuple[int, Team]]) -> Iterator[tuple[int, int, int]]:
    """Of each round, given its rollouts and team: the reads of its tasks, its objects of policies when it began, and
    the objects that it wrote."""
    locations: Locations = _all_in("initialise", rounds[0][1])
    for number, (rollouts, team) in enumerate(rounds):
        policies = _distinct(locations, ["policy"], team)
        reads, written = rollouts * policies, rollouts
        published = 0
        for wave in split(STAGES, sorted(set(team))):
            before, published_before = dict(locations), published
            for work in wave:
                needed = [part for stage in _specs(work) for part in stage.reads]
                reads += rollouts + _distinct(before, needed, work.groups) + published_before
                made = {(part, group) for stage in _specs(work) for part in stage.writes for group in work.groups}
                locations |= {where: _location(f"{number}/{work.name}", where[0]) for where in made}
                trains = any("policy" in stage.writes for stage in _specs(work))
                written += 1 + trains + work.publish
                published += work.publish
        after = rounds[number + 1][1] if number + 1 < len(rounds) else team
        if after != team:
            extra, locations = _regrouped(locations, team, after, rollouts, number)
            reads, written = reads + extra, written + 2
        yield reads, policies, written


def _regrouped(locations: Locations, team: Team, after: Team, rollouts: int, number: int) -> tuple[int, Locations]:
    """The reads of the task that makes another team, and the locations after it."""
    changed = {group for group in after if _members(after, group) != _members(team, group)}
    leaving = {team[agent] for agent, group in enumerate(after) if group in changed}
    merges = any(len({team[agent] for agent in _members(after, group)}) > 1 for group in changed)
    reads = _distinct(locations, PARTS, leaving) + (rollouts if merges else 0)
    kept = {where: locations[where] for where in locations if where[1] in set(after) - changed}
    return reads, kept | {where: at for where, at in _all_in(f"{number}/team", after).items() if where[1] in changed}


def _members(team: Team, group: int) -> list[int]:
    return [agent for agent, of in enumerate(team) if of == group]


def _all_in(work: str, team: Team) -> Locations:
    return {(part, group): _location(work, part) for part in PARTS for group in set(team)}


def _location(work: str, part: str) -> tuple[str, str]:
    return work, "policies" if part == "policy" else "learner"


def _distinct(locations: Locations, parts: Sequence[str], groups: Any) -> int:
    return len({locations[part, group] for part in parts for group in groups})


def _specs(work: Work) -> list[Any]:
    return [stage for stage in STAGES if stage.name in work.stages]


def decisions_of(run: Path) -> dict[str, Any]:
    """What a run's rules decided, [rounds, rollouts, team] for equal rounds in sequence, and its evaluations."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    alike = groupby((line["rollouts"], line["team"]) for line in lines)
    evaluations = [line["evaluation"] for line in lines if line.get("evaluation")]
    means = {each["round"]: sum(each["returns"]) / len(each["returns"]) for each in evaluations}
    return {"rounds": [[len(list(of)), *what] for what, of in alike], "evaluations": means}


def recounted(row: Mapping[str, str], decided: Mapping[str, Any], get: float) -> FinishedRun:
    """The run of a measured row, with its reads on the bill at `get` dollars each."""
    curve, reads = _curve(row, decided, get)
    measured: dict[str, Any] = {name: float(row[name]) for name in _MEASURED}
    measured |= {name: int(row[name]) for name in ("seed", "rounds", "flips", "rejected")}
    last = curve[-1]
    assert last.env_steps == int(row["env_steps"])
    measured["storage"] += get * reads
    measured["dollars"] = last.dollars
    return FinishedRun(**measured, arm=row["arm"], code=row["code"], env_steps=last.env_steps, curve=curve, history=())


def _curve(row: Mapping[str, str], decided: Mapping[str, Any], get: float) -> tuple[tuple[CostPoint, ...], int]:
    """The evaluations with their dollars, and the reads of the whole run.

    What was measured is spread over the rounds as the objects that they wrote, of which nearly all of it is the price.
    """
    rounds = [(rollouts, tuple(team)) for number, rollouts, team in decided["rounds"] for _ in range(number)]
    counted = list(reads_by_round(rounds))
    means = {int(round_): mean for round_, mean in decided["evaluations"].items()}
    dollars, seconds, all_written = float(row["dollars"]), float(row["seconds"]), sum(each[2] for each in counted)
    reads = written = steps = 0
    curve = []

    def point(mean: float) -> CostPoint:
        share = written / all_written
        return CostPoint(env_steps=steps, seconds=seconds * share, dollars=dollars * share + get * reads, mean=mean)

    for number, ((rollouts, _), (own, policies, made)) in enumerate(zip(rounds, counted, strict=True)):
        if number in means:
            curve.append(point(means[number]))
            # The round begins with an evaluation of the policies that sample it.
            reads += policies
        reads, written, steps = reads + own, written + made, steps + STEPS * rollouts
    # The final policies and the best are evaluated after the training.
    return (*curve, point(float(row["final_return"]))), reads + 2 * counted[-1][1]


def main(runs: str = "") -> None:
    """Writes the file of decisions from `runs`, or the csv."""
    text = subprocess.run(["git", "show", MEASURED], check=True, capture_output=True, encoding="utf-8").stdout
    rows = list(csv.DictReader(text.splitlines()))
    if runs:
        found = {row["arm"] + " " + row["seed"]: _repeated(Path(runs), row) for row in rows}
        lines = (f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in found.items())
        DECISIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return
    decided, prices = json.loads(DECISIONS.read_text(encoding="utf-8")), load_prices().s3_class("standard")
    get = float(prices.get_per_thousand) / 1000
    every = [recounted(row, decided[f"{row['arm']} {row['seed']}"], get) for row in rows]
    (FOLDER / f"results-{NAME}.csv").write_text(result_tables.comma_separated(every), encoding="utf-8")


def _repeated(runs: Path, row: Mapping[str, str]) -> dict[str, Any]:
    """The decisions of the repeated run of a row; raises `ValueError` unless it has the same final return."""
    arm = REPEATED.get(row["arm"]) or row["arm"].replace("+constant:", "-").removesuffix("@split")
    run = runs / f"{arm}-s{row['seed']}"
    if json.loads((run / "summary.json").read_text(encoding="utf-8"))["final_return"]["mean"] != float(
        row["final_return"]
    ):
        raise ValueError(f"{run} has another final return than its row")
    return decisions_of(run)


if __name__ == "__main__":
    main(*sys.argv[1:])
