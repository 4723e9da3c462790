"""The harness of `make conformance`: declarations, runs, records and the evaluation of records."""

import json
import sys
import tomllib
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest
import smac_stand_in

from benchmarks.conformance import __main__ as command_line
from benchmarks.conformance import measures, outcomes, pictures, protocols, record, report, tables
from benchmarks.conformance.campaign import Folders, ProtocolCampaign
from benchmarks.conformance.cases import REFERENCE, Case, Protocol, missing
from benchmarks.conformance.outcomes import Outcome
from benchmarks.conformance.protocols import FULL, ON_POLICY, PLAYING, PROTOCOLS, QUICK, QUICK_BAR, STARCRAFT
from benchmarks.conformance.record import Measured, Record
from marless.comparison.finished_run import CostPoint
from marless.coordinator.file_reading import UnreadableFile
from marless.functions.algorithms.ppo import ippo
from marless.functions.algorithms.ppo.specs import IppoConfig
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.messages.team import Team
from marless.reports.plot_style import COLOURS
from marless.reports.policy import TeamFile, export
from marless.reports.provenance import written_by
from marless.reports.statistics import FinalReturn
from marless.signals import Signals

ROOT = Path(__file__).parents[3]
TINY = {
    "task.name": "mpe/simple_spread",
    "actors.num_envs": 4,
    "evaluation.every": 1,
    "evaluation.episodes": 4,
    "evaluation.final_episodes": 4,
    "stop.env_steps": 200,
}


def a_case(algorithm="mappo", treatment="quick", seeds=(1, 2, 3), task="simple_spread_3", **changed):
    settings = {**TINY, "algorithm.name": algorithm, **changed.pop("settings", {})}
    return Case(task=task, algorithm=algorithm, treatment=treatment, seeds=seeds, settings=settings, **changed)


def a_record(case, seed, mean=-40.0, **changed):
    """A run of 200 steps in 4 s, from -80 by -50 to -40."""
    curve = [
        CostPoint(env_steps=steps, seconds=steps / 50, dollars=0.0, mean=value)
        for steps, value in ((0, -80.0), (100, -50.0), (200, -40.0))
    ]
    fields = {
        "protocol": "quick",
        "task": case.task,
        "algorithm": case.algorithm,
        "treatment": case.treatment,
        "seed": seed,
        "status": "finished",
        "settings": dict(case.settings),
        "env_steps": 200,
        "seconds": 4.0,
        "curve": tuple(curve),
        "absolute": FinalReturn(mean=mean, iqm=mean, ci95=None, episodes=3200),
    }
    return Record(**(fields | changed))


def an_outcome(case, *means, failed=(), protocol="quick"):
    records = {seed: a_record(case, seed, mean) for seed, mean in zip(case.seeds, means, strict=False)}
    records |= {seed: record.failed(protocol, case, case.cells[0], "it fell") for seed in failed}
    return Outcome(protocol, case, records)


def lines(*found):
    return [line.split(" | ") for line in tables.section(found)[0].splitlines()]


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda protocol: protocol.name)
def test_every_declared_cell_is_distinct_run(protocol):
    runs = [cell.run for _, cell in protocol.cells(lambda case: True)]
    assert len(runs) == len(set(runs)) == sum(len(case.seeds) for case in protocol.cases)
    for case in protocol.cases:
        if not missing(case):
            assert case.cells[0].to_train(case.settings, None).config.algorithm.name == case.algorithm


def test_the_long_protocol_keeps_the_benchmarks_terms():
    for treatment in ("bootstrap", "terminal"):
        cases = [case for case in FULL.cases if (case.task, case.treatment) == ("simple_spread_3", treatment)]
        assert {case.algorithm for case in cases} == set(PLAYING)
        for case in cases:
            assert case.seeds == (1, 2, 3, 4, 5)
            settings, on_policy = case.settings, case.algorithm in ON_POLICY
            assert settings["stop.env_steps"] <= (10_000_000 if on_policy else 2_000_000)
            assert settings["algorithm.gamma"] == 0.9
            assert settings["algorithm.time_limit"] == treatment
            assert settings.get("sharing.rule") == (None if on_policy else "all")
            # The absolute metric takes ten times the episodes of an evaluation. Their default is 320.
            assert "evaluation.episodes" not in settings
    spread = [case for case in FULL.cases if case.task == "simple_spread_3" and case.bar is not None]
    assert {case.algorithm: case.bar for case in spread if case.treatment == "long"} == {"mappo": -26.5, "ippo": -27.5}
    assert {case.bar for case in spread if case.treatment == "quick-native"} == {QUICK_BAR}
    assert {case.algorithm: case.bar for case in spread if case.treatment not in ("long", "quick-native")} == {
        "mappo": -33,
        "ippo": -34,
        "vdn": -33,
        "qmix": -33,
        "iql": -36,
        "maddpg": -38,
        "happo": -31.5,
        "qplex": -27,
        "masac": -29.3,
    }


def test_long_runs_have_the_settings_of_the_example():
    (case,) = (case for case in FULL.cases if case.arm.name == "simple_spread_3-mappo-long")
    document = tomllib.loads((ROOT / "examples" / "long_run.toml").read_text())
    shown = {f"{table}.{key}": value for table, keys in document.items() for key, value in keys.items()}
    settings = {key: list(value) if isinstance(value, tuple) else value for key, value in case.settings.items()}
    assert shown.items() <= settings.items()


def test_short_protocol_is_same_for_every_algorithm():
    assert {case.algorithm for case in QUICK.cases} == set(PLAYING)
    assert len(QUICK.cases) == len(PLAYING)
    assert all((case.bar, case.criterion, len(case.seeds)) == (-45, "each", 3) for case in QUICK.cases)


def test_all_cases_of_seed_precede_next_seed():
    first, second, last = a_case("mappo"), a_case("ippo", seeds=(1, 2)), a_case("vdn", seeds=(1,))
    cells = Protocol("p", ((first, second), (last,))).cells(lambda case: True)
    found = [(case.algorithm, cell.seed) for case, cell in cells]
    assert found == [("mappo", 1), ("ippo", 1), ("mappo", 2), ("ippo", 2), ("mappo", 3), ("vdn", 1)]


def test_returns_with_bounds_have_an_interval_inside_them():
    # Three seeds of `qmix` on level-based foraging. Student's t gives (-0.095, 1.069).
    low, high = an_outcome(a_case(bounds=(0.0, 1.0)), 0.361, 0.756, 0.343).ci95
    assert 0 < low < 0.49 < high < 1
    bounded = {case.task: case.bounds for case in FULL.cases if case.bounds is not None}
    assert bounded == {"smax_8m": (0, 2), "smax_3s5z": (0, 2), "lbf_8x8-2p-2f-coop": (0, 1)}


def test_battle_shares_have_interval_within_zero_and_one():
    case = a_case(measure="win", points=(200,), seeds=(1, 2, 3))
    records = {
        seed: a_record(case, seed, measured=(Measured(env_steps=200, figures={"win": won}),))
        for seed, won in zip(case.seeds, (0.6094, 0.7281, 0.875), strict=True)
    }
    (found,) = tables.measured([Outcome("quick", case, records)])
    # See the interval of shares by hand. Student's t gives (0.41, 1.07).
    assert found.splitlines()[-1] == "| mappo | quick | 3 | 0.74 (0.37 to 0.93) |"


def test_what_is_published_stands_beside_its_budget():
    assert protocols.published("simple_speaker_listener", "mappo") == (-10.68, 20_000_000)
    assert protocols.published("simple_spread_3", "qmix") == (-25.8, 2_000_000)
    assert protocols.published("simple_tag", "qmix") is protocols.published("simple_spread_3", "iddpg") is None
    # The published -126.62 of QMIX and -133.54 of MAPPO are (R + 25 * 3) / 2 in our units.
    assert pytest.approx(-25.8, abs=0.05) == (-126.62 + 75) / 2
    assert pytest.approx(-29.3, abs=0.05) == (-133.54 + 75) / 2
    header, _, row = lines(an_outcome(a_case("mappo"), -30.0, -32.0, -34.0))
    cells = dict(zip(header, row, strict=True))
    assert (cells["published"], cells["seeds"]) == ("-29.3", "3")


def test_table_omits_columns_empty_in_all_rows():
    header, *_ = lines(an_outcome(a_case("masac"), -30.0, -32.0, -34.0))
    assert "published" not in header and header[-1] == "verdict |"


@pytest.mark.parametrize(
    ("returns", "verdict"),
    [
        ((-30.0, -32.0, -34.0, -30.0, -30.0), "MISSED: kept in 4 of 5"),
        ((-30.0, -32.0, -33.0, -30.0, -30.0), "met"),
        ((-30.0, -32.0, -33.0, -30.0), "kept in 4 of 4, 5 are needed"),
    ],
)
def test_bar_is_met_by_each_of_five_seeds(returns, verdict):
    outcome = an_outcome(a_case(bar=-33.0, seeds=tuple(range(1, len(returns) + 1))), *returns)
    assert outcomes.verdict(outcome, [outcome]) == verdict


def test_with_a_failed_seed_no_mean_is_shown():
    case = a_case(bar=-45.0)
    finished, failed = an_outcome(case, -30.0, -32.0, -34.0), an_outcome(case, -30.0, -32.0, failed=(3,))
    shown = [tables.row(outcome, [outcome])[2:5] for outcome in (finished, failed)]
    # t(0.975, 2) = 4.30265 times 2 / sqrt(3).
    assert shown == [("3", "-32.00 (-36.97 to -27.03)", "-34.00"), ("2", "", "")]


def test_failed_seed_is_counted_and_missing_seed_awaited():
    failed = an_outcome(a_case(bar=-45.0), -30.0, -30.0, failed=(3,))
    assert outcomes.verdict(failed, [failed]) == "MISSED: kept in 2 of 3, 1 failed"
    assert outcomes.missed([failed]) == [failed]
    waiting = an_outcome(a_case(bar=-45.0), -30.0, -30.0)
    assert outcomes.verdict(waiting, [waiting]) == "2 of 3 seeds so far"
    assert outcomes.missed([waiting]) == []


def test_where_the_best_counts_the_others_are_reported():
    best = an_outcome(a_case("mappo", bar=-35.0, criterion="best"), -30.0, -30.0, -30.0)
    other = an_outcome(a_case("ippo", bar=-35.0, criterion="best"), -50.0, -50.0, -50.0)
    assert [outcomes.verdict(outcome, [best, other]) for outcome in (best, other)] == [
        "kept in 3 of 3, 5 are needed",
        "reported",
    ]
    assert outcomes.missed([best, other]) == []


def test_steps_and_seconds_end_at_first_passing_evaluation():
    assert outcomes.typical(an_outcome(a_case(bar=-50.0), -40.0, -40.0, -40.0).reached()) == (100, 2.0)
    assert outcomes.typical(an_outcome(a_case(bar=-39.0), -40.0, -40.0, -40.0).reached()) is None


def test_the_layout_of_results_is_task_algorithm_figures():
    main, other = a_case("vdn", "bootstrap"), a_case("vdn", "terminal")
    reference = a_case("mappo", REFERENCE, task="simple_tag")
    found = [an_outcome(main, -30.0, -32.0, -34.0), an_outcome(other, -31.0), an_outcome(reference, -1.0)]
    layout = outcomes.layout(found)
    assert list(layout) == ["simple_spread_3"]
    assert list(layout["simple_spread_3"]) == ["vdn", "vdn-terminal"]
    figures = layout["simple_spread_3"]["vdn"]
    assert list(figures) == ["protocol", "mean", "ci95", "seeds", "env_steps", "seconds", "commits"]
    assert (figures["seeds"], figures["env_steps"], figures["seconds"]) == ([1, 2, 3], 200, 4.0)


WHOLE, BEGUN, NOTHING = (-28.0, -28.0, -28.0), (-28.0,), ()


@pytest.mark.parametrize(
    ("quick", "full", "protocols"),
    [
        (WHOLE, WHOLE, {"vdn": "full", "vdn-quick": "quick"}),
        (BEGUN, WHOLE, {"vdn": "full", "vdn-quick": "quick"}),
        (WHOLE, BEGUN, {"vdn": "quick", "vdn-bootstrap": "full"}),
        (BEGUN, BEGUN, {"vdn": "full", "vdn-quick": "quick"}),
        (WHOLE, NOTHING, {"vdn": "quick"}),
        (BEGUN, NOTHING, {"vdn": "quick"}),
        (NOTHING, BEGUN, {"vdn": "full"}),
    ],
)
def test_the_longest_whole_protocol_has_the_plain_name(quick, full, protocols):
    found = [an_outcome(a_case("vdn"), *quick), an_outcome(a_case("vdn", "bootstrap"), *full, protocol="full")]
    layout = outcomes.layout(found)["simple_spread_3"]
    assert {name: figures["protocol"] for name, figures in layout.items()} == protocols
    assert next(iter(layout)) == "vdn"


def test_failed_long_protocol_leaves_name_to_short_protocol():
    quick = an_outcome(a_case("vdn"), -36.0, -36.0, -36.0)
    full = an_outcome(a_case("vdn", "bootstrap"), -28.0, -28.0, failed=(3,), protocol="full")
    assert outcomes.layout([quick, full])["simple_spread_3"]["vdn"]["mean"] == -36


def test_each_algorithm_has_its_plain_name_for_itself():
    found = [
        an_outcome(a_case("vdn"), -36.0, -36.0, -36.0),
        an_outcome(a_case("iql"), -38.0, -38.0, -38.0),
        an_outcome(a_case("vdn", "bootstrap"), -28.0, -28.0, -28.0, protocol="full"),
    ]
    means = {name: figures["mean"] for name, figures in outcomes.layout(found)["simple_spread_3"].items()}
    assert means == {"iql": -38, "vdn": -28, "vdn-quick": -36}


def test_later_treatment_never_has_plain_name():
    first, later = a_case("vdn", "bootstrap"), a_case("vdn", "terminal")
    found = [an_outcome(first, protocol="full"), an_outcome(later, -30.0, -30.0, -30.0, protocol="full")]
    assert list(outcomes.layout(found)["simple_spread_3"]) == ["vdn-terminal"]


def test_final_policies_of_named_side_count_in_competition():
    case = a_case(task="simple_tag", measure="sides", seeds=(1,), settings={"task.name": "mpe/simple_tag"})
    outcome = Outcome("quick", case, {1: a_record(case, 1, mean=100.0, final=21.0)})
    assert outcome.mean == 21
    assert "of the team adversary, summed over its agents" in tables.section([outcome])[0]


def test_outcome_names_programs_that_trained_seeds():
    case = a_case()
    commits = {1: "0123456789+", 2: "0123456789+", 3: "abcdef0123"}
    found = Outcome("quick", case, {seed: a_record(case, seed, commit=commit) for seed, commit in commits.items()})
    assert found.commits == ["0123456+", "abcdef0"]


def test_cases_without_record_are_listed_below_table():
    ended, waiting = an_outcome(a_case(bar=-45.0), -30.0), an_outcome(a_case("qmix", bar=-33.0))
    table, line = tables.section([ended, waiting])
    assert len(table.splitlines()) == 3
    assert line == "Not run yet (quick): qmix."
    assert tables.section([waiting]) == [line]


def test_records_round_trip_and_others_are_refused(tmp_path):
    case = a_case()
    file, first, second = record.path(tmp_path, "quick"), a_record(case, 1), a_record(case, 2)
    assert record.read(file) == {}
    record.put(file, second)
    record.put(file, first, a_record(case, 2, mean=-50.0))
    assert list(record.read(file).values()) == [first, a_record(case, 2, mean=-50.0)]
    with file.open("a") as lines:
        lines.write("{")
    with pytest.raises(UnreadableFile, match=r"line 3, is no record: .*delete it"):
        record.read(file)


def put(folder, *records):
    for made in records:
        record.put(record.path(folder, made.protocol), made)


def test_a_report_writes_every_file(tmp_path):
    case = a_case("vdn")
    put(tmp_path, *(a_record(case, seed, mean=-seed) for seed in case.seeds))
    assert outcomes.layout(report.write(tmp_path))["simple_spread_3"]["vdn"]["mean"] == -2
    assert "| vdn | quick | 3 | -2.00" in (tmp_path / "conformance.md").read_text()
    assert (tmp_path / "conformance.md").read_text().endswith(f"\n\n{written_by()}\n")
    assert (tmp_path / "conformance-quick-simple_spread_3.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((tmp_path / "simple_spread_3-marl-eval.json").read_text())
    runs = content["mpe"]["simple_spread"]["vdn"]
    assert list(runs) == ["seed_1", "seed_2", "seed_3"]
    assert runs["seed_2"]["step_1"] == {"step_count": 100, "return": [-50.0]}
    assert runs["seed_2"]["absolute_metrics"] == {"return": [-2.0]}


def test_marl_eval_has_a_file_for_each_protocol(tmp_path):
    quick, full = a_case("vdn"), a_case("vdn", "bootstrap", seeds=(1, 2, 3))
    put(tmp_path, *(a_record(quick, seed) for seed in quick.seeds))
    put(tmp_path, a_record(full, 1, protocol="full"))
    report.write(tmp_path)
    plain, short = (tmp_path / f"simple_spread_3{name}-marl-eval.json" for name in ("", "-quick"))
    runs = [json.loads(file.read_text())["mpe"]["simple_spread"] for file in (plain, short)]
    assert [{name: list(seeds) for name, seeds in found.items()} for found in runs] == [
        {"vdn-bootstrap": ["seed_1"]},
        {"vdn": ["seed_1", "seed_2", "seed_3"]},
    ]


def test_results_whose_records_are_gone_appear_nowhere(tmp_path):
    case = a_case("vdn")
    put(tmp_path, *(a_record(case, seed) for seed in case.seeds))
    report.write(tmp_path)
    # Act like `quick --anew`, and then all seeds fail.
    put(tmp_path, *(record.failed("quick", case, cell, "it fell") for cell in case.cells))
    assert outcomes.layout(report.write(tmp_path)) == {}
    assert list(tmp_path.glob("*-marl-eval.json")) == []


def test_sides_have_own_panels_without_sum(tmp_path, monkeypatch):
    case = a_case(task="simple_adversary", measure="sides", points=(100, 200), seeds=(1,))
    measured = tuple(Measured(env_steps=at, figures={"adversary against random": -at / 10}) for at in case.points)
    titles = []
    monkeypatch.setattr(pictures, "finish", lambda axes, title, about, x, y: titles.append((title, y)))
    pictures.draw([Outcome("quick", case, {1: a_record(case, 1, measured=measured)})], tmp_path)
    assert titles == [("simple_adversary, quick", "adversary against random")]


def test_picture_tells_number_of_seeds_of_means(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(pictures, "finish", lambda axes, title, about, x, y: said.append(about))
    whole, begun = an_outcome(a_case(), -30.0, -32.0, -34.0), an_outcome(a_case("vdn"), -30.0)
    for found in ([whole], [begun], [whole, begun]):
        pictures.draw(found, tmp_path)
    band = ", band: 95 % interval"
    assert said == [f"mean over 3 seeds{band}", "one seed", f"mean over 1 to 3 seeds{band}"]


def test_algorithm_has_same_colour_in_every_panel(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(pictures, "save", lambda figure, path: figures.append(figure))
    cases = a_case("mappo", "1M"), a_case("vdn", "4M")
    pictures.draw([an_outcome(case, -30.0, -32.0) for case in cases], tmp_path)
    labels = [text for axes in figures[0].axes for text in axes.texts if text.arrow_patch]
    assert [(label.get_text(), label.get_color()) for label in labels] == [("mappo", COLOURS[0]), ("vdn", COLOURS[1])]


def a_campaign(folder, records, *blocks):
    return ProtocolCampaign(
        Protocol("tiny", blocks), lambda case: True, Folders(folder / "out", folder / "work"), records.append
    )


def test_cells_run_once_and_failure_is_recorded(tmp_path):
    good, bad = a_case(seeds=(1,)), a_case("iql", seeds=(1,), settings={"task.options": "{continuous_actions = true}"})
    # A run started by another program version cannot be resumed: it starts again.
    left = tmp_path / "work" / "runs" / good.cells[0].run
    left.mkdir(parents=True)
    (left / "plan.json").write_text('{"code_sha256": "another"}')
    records = []
    a_campaign(tmp_path, records, (good, bad)).run(2, Signals())
    by_name = {made.algorithm: made for made in records}
    assert by_name["mappo"].status == "finished"
    assert by_name["mappo"].env_steps == 200
    assert by_name["mappo"].absolute.episodes == 40
    assert by_name["mappo"].curve[-1].mean == by_name["mappo"].final
    found = by_name["mappo"].hyperparameters
    assert (found["name"], found["gamma"], found["lr"], found["actors.num_envs"]) == ("mappo", 0.9, 2e-3, 4)
    assert by_name["iql"].status == "failed"
    assert by_name["iql"].reason
    assert a_campaign(tmp_path, records, (good, bad)).missing == []
    assert not left.exists()


def test_unseen_ended_run_is_recorded_without_retraining(tmp_path, monkeypatch):
    """The state after a kill between the end of a run and its record."""
    case, records = a_case(seeds=(1,)), []
    first = a_campaign(tmp_path, records, (case,))
    with monkeypatch.context() as killed:
        killed.setattr(first, "_settled", lambda cell: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            first.run(1, Signals())
    second = a_campaign(tmp_path, records, (case,))
    assert second.ask() == []
    assert [made.status for made in records] == ["finished"]


@pytest.mark.conformance
def test_cell_pauses_at_points_and_sides_play_reference(tmp_path, monkeypatch):
    monkeypatch.setattr(measures, "EPISODES", 2)
    task = {"task": "simple_adversary", "settings": {"task.name": "mpe/simple_adversary"}}
    reference = a_case(treatment=REFERENCE, seeds=(100,), **task)
    sided = a_case("ippo", seeds=(1,), measure="sides", points=(100, 200), **task)
    records = []
    # The reference is declared last: the other cell waits for it.
    a_campaign(tmp_path, records, (sided, reference)).run(2, Signals())
    assert [made.treatment for made in records] == [REFERENCE, "quick"]
    assert [part.env_steps for part in records[1].measured] == [100, 200]
    sides = {f"{side} against {who}" for side in ("adversary", "agent") for who in ("random", "reference")}
    assert set(records[1].measured[1].figures) == sides
    assert records[1].env_steps == 200


def test_command_trains_reports_and_tells_misses(tmp_path, monkeypatch, capsys):
    missed = a_case(seeds=(1,), bar=0.0)
    protocol = Protocol("quick", ((missed, a_case("coma", seeds=(1,))),))
    monkeypatch.setitem(command_line.PROTOCOLS, "quick", protocol)
    monkeypatch.setattr(report, "QUICK", protocol)
    folders = ["--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    monkeypatch.setattr("sys.argv", ["conformance", "quick", "--jobs", "1", *folders])
    assert command_line.main() == 1
    said = capsys.readouterr().out
    assert "simple_spread_3-coma-quick: left out; this version has no algorithm coma" in said
    assert "1 cells, 1 of them to train" in said
    assert "simple_spread_3-mappo-quick: missed its bar" in said
    assert "MISSED: kept in 0 of 1" in (tmp_path / "out" / "conformance.md").read_text()


def test_patterns_pick_cases_and_their_opponents():
    sided = a_case("ippo", task="simple_tag", measure="sides")
    protocol = Protocol("p", ((a_case("vdn"), sided, a_case(treatment=REFERENCE, task="simple_tag")),))
    picked = [case.arm.name for case in protocol.cases if command_line.Among(protocol, ["simple_tag-ippo"])(case)]
    assert picked == ["simple_tag-ippo-quick", "simple_tag-mappo-reference"]


class EveryOtherWins:
    """The task with a win in every second environment, for any actions."""

    def __init__(self, environment):
        self._environment = environment
        self.spec, self.num_envs = environment.spec, environment.num_envs
        self.reset, self.close = environment.reset, environment.close

    def step(self, actions):
        step = self._environment.step(actions)
        won = np.arange(self.num_envs) % 2 == 0
        return step if step.final is None else replace(step, env_metrics={"win": won.astype(float)})


def test_wins_are_share_of_won_episodes(tmp_path, monkeypatch):
    task, team = EnvTask(name="mpe/simple_spread"), Team(groups=(0, 1, 2))
    spec = registry.spec(task)
    networks = [ippo.initialise(spec, team, IppoConfig().resolved(spec), 1, group) for group in team.groups]
    tensors = {name: tensor for network in networks for name, tensor in network.items()}
    (tmp_path / "policies.safetensors").write_bytes(export(TeamFile(task=task, spec=spec, team=team), tensors))
    make = registry.make
    monkeypatch.setattr(registry, "make", lambda task, num_envs: EveryOtherWins(make(task, num_envs)))
    found = measures.wins(tmp_path, seed=1, num_envs=160)
    assert found["win"] == 0.5
    # Untrained networks return about as much as random play, -80.
    assert -160 < found["return"] < -40


STAND_IN = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests" / "support" / "environments")!r})
import smac_stand_in
sys.modules.update(smac_stand_in.modules(smac_stand_in.World()))
"""


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("algorithm", ["mappo", "qmix"])
def test_starcraft_protocol_runs_up_to_game(tmp_path, shell, monkeypatch, algorithm):
    """Runs, measures and reports a case of the protocol, shorter and on a map of the stand-in."""
    (tmp_path / "package" / "smac").mkdir(parents=True)
    (tmp_path / "package" / "smac" / "__init__.py").write_text(STAND_IN)
    shell.import_from(tmp_path / "package")
    monkeypatch.setattr(measures, "EPISODES", 16)
    for name, module in smac_stand_in.modules(smac_stand_in.World()).items():
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    whole = next(case for case in STARCRAFT.cases if (case.task, case.algorithm) == ("smac_3s5z", algorithm))
    small = {"task.name": "smac/3m", "stop.env_steps": 480, "evaluation.every": 5, "evaluation.episodes": 8}
    case = replace(whole, seeds=(1,), settings={**whole.settings, **small}, points=(240, 480))
    records = []
    a_campaign(tmp_path, records, (case,)).run(1, Signals())
    assert [(made.status, made.reason, len(made.measured)) for made in records] == [("finished", "", 2)]
    assert all(0 <= part.figures["win"] <= 1 for part in records[0].measured)
    table = tables.measured([Outcome("starcraft", case, {1: records[0]})])[0]
    published = {"mappo": "1", "qmix": "0.969"}[algorithm]
    assert table.splitlines()[0].endswith("published win |") and table.splitlines()[2].endswith(f"| {published} |")


def test_cases_without_starcraft_say_how_to_install():
    assert "not installed: pip install" in missing(STARCRAFT.cases[0])
    assert "smacv2" in missing(STARCRAFT.cases[-1])
