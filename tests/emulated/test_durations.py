"""The place where durations are measured: the notes of bills through whole runs, and forecasts for a share of a vCPU.

The back-end `aws` runs here against the endpoint of the emulated account. The account then simulates one that measures
functions on their share of a vCPU.
"""

import json
from dataclasses import replace

import msgspec
import pytest

from marless.coordinator.config.schema import Stop
from marless.coordinator.core.planning import next_placement
from marless.coordinator.placement import planner
from marless.infra.deployment import deploy
from marless.reports import provenance
from marless.runs import stored_run
from marless.runs.run_store import RUNS

HERE, BY_LAMBDA = "durations measured on this machine", "durations as the functions measured them"
WHERE = [
    (("--backend", "local"), HERE, "would cost"),
    (("--backend", "inline"), HERE, "would cost"),
    (("--backend", "emulated"), HERE, "would cost"),
    (("--backend", "emulated", "--detach"), HERE, "would cost"),
    (("--backend", "aws"), BY_LAMBDA, "costs"),
    (("--backend", "aws", "--detach"), BY_LAMBDA, "costs"),
]


@pytest.mark.parametrize(("options", "note", "verb"), WHERE, ids=[" ".join(case[0][1:]) for case in WHERE])
def test_a_bill_says_where_its_durations_were_measured(place, marless, finished, as_aws, options, note, verb):
    name = "-".join(option.strip("-") for option in options[1:])
    said = marless.train(name, *options)
    assert said.code == 0, said.err
    if "--detach" in options:
        finished(name)
        said = marless("status", "--follow", name)
    assert note in json.loads((place.home / "runs" / name / "bill.json").read_text())["note"]
    assert [line for line in said.out if f"what this {verb} on AWS" in line]


MB, ROUNDS = 512, 204
# The last ten tasks, of ten rounds each: nearly all that the fitted durations remember.
LAST = 100
TRAINED = ("task.name=mpe/simple_spread", "actors.num_envs=256", "algorithm.hidden=[64,64]", "evaluation.every=1000")


@pytest.mark.conformance
@pytest.mark.parametrize("backend", ["emulated", "aws"])
def test_forecast_at_512_mb_is_within_a_quarter(place, marless, as_aws, backend):
    # 512 MB buy 0.289 of a vCPU: durations that are stretched twice, or never, miss the bill's by a factor of 3.5.
    sizes = {f"{role}Memory": str(MB) for role in ("Actor", "Learner", "Evaluator")}
    place.look_after(deploy(place.cloud, "small", {"Code": provenance.code_sha256(), **sizes}))
    name, where = f"auto-{backend}", ("--backend", backend, "--tenant", "small")
    said = marless.train(name, *TRAINED, "placement.rule=auto", f"stop.rounds={ROUNDS}", *where)
    assert said.code == 0, said.err
    with stored_run.look(RUNS.find(name)) as run:
        state, ended = run.saved_state, run.plan
    # As if more rounds followed: the placement after the last round is for a single round.
    plan = replace(ended, config=msgspec.structs.replace(ended.config, stop=Stop(rounds=2 * ROUNDS)))
    terms, chosen = next_placement.terms(plan, state), next_placement.place_round(plan, state)
    layout = next_placement.layout(plan, state)
    expected = planner.forecast(chosen, layout, state.timings, terms).dollars
    lines = [json.loads(line) for line in (place.home / "runs" / name / "metrics.jsonl").read_text().splitlines()]
    billed = (lines[-1]["dollars"] - lines[-1 - LAST]["dollars"]) / LAST
    print(f"{backend}, {chosen.rule}: forecast ${expected:.3e}, billed ${billed:.3e} a round")
    assert expected == pytest.approx(billed, rel=0.25)
