"""The benchmark of sorted entities: its registration, its control, and tables of hand-made records."""

from types import SimpleNamespace

import msgspec
import numpy as np
import pytest

from benchmarks.baseline import scripted_form
from benchmarks.entities import permuted, registered
from benchmarks.entities.registered import Bar, Baseline, File, ListOfArms
from benchmarks.entities.runs import Run
from benchmarks.entities.table import text
from marless.coordinator.config.loading import load
from marless.functions.environments import registry
from marless.functions.environments.base import EnvTask
from marless.functions.randomness import generator

PLAIN = ListOfArms(
    name="targets",
    seeds="1-5",
    settings=["stop.env_steps=1600"],
    arms={"sorted": ["order"], "sets": ["algorithm.network=attention"]},
    baselines={"loop": Baseline("torch_form", ["order"])},
    targets=[-36],
    off=["sets"],
    bars=[
        Bar(arm="sorted", target=-36, against="loop", mean=0.2, most=0.5),
        Bar(arm="sorted", of="rate", against="loop", least=2),
    ],
)
FILE = File(sets={"order": ["task.order=distance"]}, lists=[PLAIN])


def run(arm, seed, steps, seconds, study=PLAIN, **others):
    """Return a run of the registered arm that reached -36 after so many steps and seconds, or never."""
    (registration,) = (one.registration for one in FILE.arms(study) if one.name == arm)
    values = {"registration": registration, "program": "b", "rate": 1000.0, **others}
    reached = {"steps_to": {"-36": steps}, "seconds_to": {"-36": seconds}}
    where = {"commit": None, "processor": "x", "cores": 2, "date": "2026-11-29"}
    values.setdefault("load", (0.0, 0.0))
    return Run(study="targets", arm=arm, seed=seed, env_steps=1600, **values, **reached, **where)


def rows(runs, file=FILE):
    """Return the cells of all rows by the number of the table, and the text."""
    shown = text(file, runs)
    tables = [part.splitlines() for part in shown.split("\n\n") if part.startswith("|")]
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]] for table in tables], shown


def five(seconds=(1.0, 2.0, 3.0, 4.0, None), share=0.3):
    """Return five seeds. The baseline needs 10 s. The arm needs a second more than `seconds`, for its launch."""
    loop = [run("loop", seed, 1000, 10.0, share=share) for seed in range(1, 6)]
    ours = [
        run("sorted", seed, value and int(100 * value), value, launch=1.0, rate=2500.0, best=-seed)
        for seed, value in enumerate(seconds, start=1)
    ]
    return loop + ours


def test_seed_that_misses_target_counts_as_slowest():
    (steps, seconds, ends, bars), _ = rows(five())
    assert steps == [["loop", "1,000 (5 of 5)"], ["sorted", "300 (4 of 5)"]]
    assert seconds == [["loop", "10.0 (5 of 5)"], ["sorted", "4.0 (4 of 5)"]]
    assert ends == [
        ["loop", "5", "", "", "1,000", "0.0"],
        ["sorted", "5", "-3.00", "-5.00 … -1.00 (5)", "2,500", "1.0"],
    ]
    guard, mean, each, _, rate = bars
    assert guard[-1] == "≥ 0.25: met"
    assert mean[-1] == "≤ 0.2: MISSED: kept in 0 of 5"
    # Quotients of the same seed: 0.2, 0.3, 0.4, 0.5 and never.
    assert each[3:] == ["0.4", "0.2 … not reached (5)", "loop", "≤ 0.5: MISSED: kept in 4 of 5"]
    assert rate[3:] == ["2.5", "2.5 … 2.5 (5)", "loop", "≥ 2: met"]


def test_final_policies_are_compared_by_team():
    study = msgspec.structs.replace(PLAIN, teams=["3", "smax/8m"], bars=[])
    played = [{"3": -30.0, "smax/8m": 0.5}, {"3": -31.0, "smax/8m": 0.75}, {"3": -29.0}]
    runs = [run("sorted", seed, 100, 1.0, study, teams=teams) for seed, teams in enumerate(played, start=1)]
    *_, teams = rows(runs, msgspec.structs.replace(FILE, lists=[study]))[0]
    assert teams == [
        ["loop", "not run", "not run"],
        ["sorted", "-30.00, -31.00 … -29.00 (3)", "0.62, 0.50 … 0.75 (2)"],
    ]


def test_scripted_agents_divide_landmarks_and_brake():
    # The first landmark is nearest to both. The ways have 2 + 0.5 if the second agent takes it, and else 1 + 4.
    first = [0.0, 0.0, 0, 0, 0.0, 1.0, 0.0, -2.0]
    second = [0.0, 0.0, 0, 0, -0.5, 0.0, 0.0, -4.0]
    # Ahead by 0.1, at a velocity of 1, an agent brakes. At its landmark it stands still.
    fast, there = [1.0, 0.0, 0, 0, 0.1, 0.0, 5.0, 5.0], [0.0, 0.0, 0, 0, -5.0, -5.0, 0.01, 0.0]
    observations = np.array([[first, second], [fast, there]], np.float32)
    # 1 and 2 accelerate along x to lower and higher values, 3 and 4 along y.
    assert scripted_form.actions(observations).tolist() == [[3, 1], [1, 0]]


def test_busy_seconds_are_omitted_and_empty_arms_stay():
    quiet, busy = run("sorted", 1, 100, 1.0), run("sorted", 2, 300, 9.0, load=(4.5, 1.0))
    (steps, seconds, ends, _), _ = rows([quiet, busy])
    assert steps == [["loop", "not run"], ["sorted", "200 (2 of 2)"]]
    assert (seconds[1][1], ends[1][2]) == ("1.0 (1 of 1)", "1,000")
    (steps, seconds, ends, _), _ = rows([busy])
    assert (steps[1][1], seconds[1][1], ends[1][2:]) == ("300 (1 of 1)", "machine was busy", [])


def test_battles_won_and_dollars_have_columns_and_bars():
    study = msgspec.structs.replace(PLAIN, targets=[], baselines={}, bars=[Bar("sorted", "win", least=0.95)])
    file = msgspec.structs.replace(FILE, lists=[study])
    (registration,) = (arm.registration for arm in file.arms(study) if arm.name == "sorted")
    values = {"registration": registration, "dollars": 0.01, "first_round": 2.0, "learning": 0.75, "parts": 3}
    wins = enumerate((0.94, 0.96, 0.98), start=1)
    (ends, (bar,)), shown = rows([run("sorted", seed, None, None, win=win, **values) for seed, win in wins], file)
    assert "won, % | lowest … highest | steps/s | launch, s | first round, s | learners | dollars | groups |" in shown
    assert ends == [["sorted", "3", "96.0", "94.0 … 98.0 (3)", "1,000", "0.0", "2.0", "0.75", "0.0100", "3"]]
    assert bar[-1] == "≥ 0.95: MISSED: kept in 2 of 3"


def test_all_dollars_of_missed_target_count():
    study = msgspec.structs.replace(PLAIN, bars=[Bar("sorted", "dollars", target=-36, against="loop", most=0.7)])
    missed = run("loop", 1, None, None, study, dollars=0.004)
    reached = run("sorted", 1, 100, 1.0, study, dollars_to={"-36": 0.001})
    (*_, (bar,)), _ = rows([missed, reached], msgspec.structs.replace(FILE, lists=[study]))
    assert bar[3] == "0.25"


def test_mean_needs_all_seeds_and_fast_baseline():
    # Seconds with the launch: 1.5, 1.5, 2, 2 and 2.5 of 10, on average 0.19.
    for share, verdict in ((0.3, "met"), (0.2, "not met: its guard missed")):
        (*_, (_, mean, each, *_)), _ = rows(five((0.5, 0.5, 1.0, 1.0, 1.5), share=share))
        assert [mean[3], mean[-1], each[-1]] == ["0.19", f"≤ 0.2: {verdict}", f"≤ 0.5: {verdict}"]


def test_runs_of_other_registration_are_counted_only():
    others = [run("sorted", 1, 100, 1.0, program="a"), run("sorted", 1, 100, 1.0, registration="c")]
    tables, shown = rows([*others, *five()])
    assert tables == rows(five())[0]
    assert "Not shown: 2 runs of another registration or program." in shown


def test_registration_depends_only_on_arm_and_its_list():
    def registrations(file, **changes):
        study = msgspec.structs.replace(file.lists[0], **changes)
        return {arm.name: arm.registration for arm in file.arms(study)}

    before = registrations(FILE)
    assert registrations(FILE, arms={**PLAIN.arms, "new": []}).items() > before.items()
    assert registrations(FILE, off=[]) == before
    for changes in ({"bars": []}, {"seeds": "1-6"}, {"targets": [-30]}, {"settings": ["stop.env_steps=3200"]}):
        assert not registrations(FILE, **changes).items() & before.items()
    other_set = msgspec.structs.replace(FILE, sets={"order": ["task.order=relation"]})
    assert {name for name in before if registrations(other_set)[name] != before[name]} == {"loop", "sorted"}


@pytest.mark.parametrize("name", ["entities", "games"])
def test_every_arm_has_valid_settings(name):
    file = registered.load(name)
    for study in file.lists:
        arms = file.arms(study)
        assert {*study.off, *(bar.arm for bar in study.bars)} <= {arm.name for arm in arms}
        for arm in arms:
            # The control is an environment of the benchmark, which only its own runs have.
            if arm.name not in study.off and "permuted" not in arm.name:
                load(None, arm.settings)


@pytest.mark.parametrize("seed", [1, 2])
def test_control_permutes_landmarks_and_teammates_per_agent(seed):
    options = {"exact_physics": True}
    plain = registry.make(EnvTask(name="mpe/simple_spread", options=options), 3)
    task = EnvTask(name="benchmark/permuted_spread", options={**options, "permutation": seed})
    before = plain.reset(generator(1)).values[0]
    after = permuted.make(task, 3).reset(generator(1)).values[0]
    # An observation has velocity and position, three landmarks, two teammates, and two messages.
    columns = permuted.columns_of(plain.spec.classes[0], seed)
    assert columns.shape == (3, 18)
    assert (columns[:, :4] == np.arange(4)).all()
    assert len({*map(tuple, columns)}) > 1
    for agent in range(3):
        assert (after[:, agent] == before[:, agent][:, columns[agent]]).all()
        landmarks, others = columns[agent, 4:10].reshape(3, 2), columns[agent, 10:14].reshape(2, 2)
        assert sorted(landmarks[:, 0]) == [4, 6, 8] and (landmarks[:, 1] == landmarks[:, 0] + 1).all()
        assert sorted(others[:, 0]) == [10, 12] and (others[:, 1] == others[:, 0] + 1).all()


def test_deep_sets_ignore_order_of_entities():
    torch = pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)
    deep_sets = pytest.importorskip("benchmarks.entities.deep_sets")
    shape = SimpleNamespace(hidden=(8, 8), rest=1, outputs=5, output_gain=1.0)
    network, rest = deep_sets.make(shape), torch.zeros(4, 1)
    seen = torch.from_numpy(np.random.default_rng(1).normal(size=(4, 18)).astype(np.float32))
    # Landmarks 3, 1, 2, and teammates with their messages exchanged.
    exchanged = seen[:, [0, 1, 2, 3, 8, 9, 4, 5, 6, 7, 12, 13, 10, 11, 16, 17, 14, 15]]
    assert torch.allclose(network(seen, rest), network(exchanged, rest), atol=1e-6)
    assert not torch.allclose(network(seen, rest), network(seen.flip(1), rest), atol=1e-3)
