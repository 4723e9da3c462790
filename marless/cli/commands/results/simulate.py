"""marless estimate --simulate: seconds and dollars of a recorded run with other rollouts, slots and faults."""

import time
from argparse import ArgumentTypeError, Namespace, _ArgumentGroup
from pathlib import Path

from marless.cli import arguments as common
from marless.coordinator.errors import FINISHED
from marless.estimation.forecast import Simulated
from marless.estimation.recording import recording_of
from marless.estimation.simulation import LEAST_ROUNDS, SimulatedSetting, Simulations, simulate, spread
from marless.estimation.virtual_functions import Faults
from marless.output import say, say_json, say_text
from marless.page import timeline_page
from marless.reports.atomic_files import write_for_user
from marless.runs.run_store import LATEST
from marless.views.progress_lines import progress_lines

LATENCIES = ("local", "aws")

_SHARE = common.number("a share from 0 to 1", lambda share: 0 <= share <= 1)


def arguments(parser: _ArgumentGroup) -> None:
    """Add the options of a simulation."""
    parser.add_argument(
        "--rollouts",
        type=lambda text: tuple(map(common.count, text.split(","))),
        metavar="N,N",
        help="rollouts per round (default: as recorded)",
    )
    parser.add_argument("--rounds", type=_rounds, default=20, metavar="N", help="rounds to simulate (default: 20)")
    parser.add_argument(
        "--latency", choices=LATENCIES, default="local", help="latency of requests and storage (default: as recorded)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the drawn durations (default: 0)")
    parser.add_argument(
        "--slow", type=_SHARE, default=0.0, metavar="SHARE", help="attempts that take ten times as long"
    )
    parser.add_argument("--cold", type=_SHARE, default=0.0, metavar="SHARE", help="attempts that start an environment")
    parser.add_argument("--throttled", type=_SHARE, default=0.0, metavar="SHARE", help="attempts that are rejected")
    parser.add_argument("--lost", type=_SHARE, default=0.0, metavar="SHARE", help="attempts that never report")
    parser.add_argument("--timeline", type=Path, metavar="FILE", help="draw the last rounds of the last simulation")


def run(options: Namespace) -> int:
    """Simulate each number of rollouts and print a row for it."""
    first, *settings = options.settings or [LATEST]
    run_and_settings = common.run_and_settings(Namespace(run=first, settings=settings))
    with progress_lines() as progress:
        recording = recording_of(*run_and_settings, options.workers, progress)
    results = []
    for rollouts in options.rollouts or (recording.lines[-1].rollouts,):
        setting = SimulatedSetting(
            rollouts=rollouts,
            rounds=options.rounds,
            slots=options.concurrency or recording.slots,
            deployed=options.latency == "aws",
            faults=Faults(slow=options.slow, cold=options.cold, throttled=options.throttled, lost=options.lost),
            seed=options.seed,
        )
        began = time.monotonic()
        results.append((setting, simulate(recording, setting), time.monotonic() - began))
    for setting, simulation, took in results if options.json else ():
        say_json(_figures(setting, simulation, took))
    if not options.json:
        _show(results)
    if options.timeline:
        _draw(options.timeline, *results[-1][:2])
    return FINISHED


def _figures(setting: SimulatedSetting, simulation: Simulated, took: float) -> dict[str, object]:
    low, median, high = spread(simulation.round_s)
    return {
        "rollouts": setting.rollouts,
        "slots": setting.slots,
        "rounds": len(simulation.lines),
        "round_s": median,
        "round_s_lowest": low,
        "round_s_highest": high,
        "round_dollars": simulation.dollars,
        "utilisation": simulation.utilisation,
        "critical_path_s": simulation.critical_path_s,
        "coordinator_s": simulation.coordinator_s,
        "busy_s": simulation.busy_s,
        "requests": simulation.requests,
        "request_bytes": simulation.request_bytes,
        "reply_bytes": simulation.reply_bytes,
        "largest_request": simulation.largest_request,
        "largest_item": simulation.largest_item,
        "simulated_in_s": round(took, 2),
    }


def _show(results: list[tuple[SimulatedSetting, Simulated, float]]) -> None:
    simulations = Simulations((simulation for _, simulation, _ in results), results[-1][0].slots)
    say_text("\n\n".join(section.text for section in simulations.sections))
    say(*simulations.sentences)


def _draw(path: Path, setting: SimulatedSetting, simulation: Simulated) -> None:
    last = simulation.lines[-1].round
    recent = [record for record in simulation.records if last - 3 <= record.round < last]
    title = f"simulated, {setting.rollouts:,} rollouts a round"
    write_for_user(path, timeline_page.page("Timeline", {title: recent}).encode())
    say(str(path))


def _rounds(text: str) -> int:
    if (rounds := common.count(text)) < LEAST_ROUNDS:
        raise ArgumentTypeError(f"at least {LEAST_ROUNDS} rounds are simulated: the first one starts the functions")
    return rounds
