"""The tables of the record: the bars, all pairs, the arms, and the hashes."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, geometric_mean

from benchmarks.plan.registered import File, Pair, Record, Trained
from marless.reports.text import markdown_table

# The bars: the share of deadlines, dollars against the best in hindsight, and misses or dollars of the best constant.
MET, DEAR, CONSTANT_MISSES, CONSTANT_DEAR = 0.95, 1.10, 0.25, 1.5
_LATE = math.inf
_ABOUT = """\
`marless plan` chose a placement for each deadline. Each pair has its own account with other tails: log-normal waits
for storage and invocations, and Pareto starts. The planner knows the medians alone. The account is the simulator
with these tails, on a virtual clock. It shares the durations of tasks with the planner. In three of four tasks
rollouts wait, as if a simulator ran elsewhere.

Nothing replans while a run goes. A refused pair counts as missed. The best in hindsight is the cheapest among all
offers and constants that met the deadline. The last table has real trainings of the chosen plans and of the
constants. In the emulated account, requests also waited up to 0.1 s, drawn evenly, and starts were this machine's.
Their seconds are of a busy machine."""
Choice = Callable[[Pair], str]


def text(file: File, records: Sequence[Record]) -> str:
    """Return all tables in markdown."""
    counted = [one for one in records if one.origin.registration == file.registration]
    pairs = newest([one for one in counted if isinstance(one, Pair)])
    if not pairs:
        return "The pairs are registered and have not run yet."
    trained = [one for one in counted if isinstance(one, Trained)]
    parts = [_ABOUT, "### Bars", bars(pairs, trained), "### Arms", arms(pairs), "### Pairs", _pairs(pairs)]
    return "\n\n".join([*parts, *(["### Weights", _weights(trained)] if trained else [])])


def newest(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the last record of each pair."""
    return [*{(pair.task, pair.number): pair for pair in pairs}.values()]


def is_met(pair: Pair, name: str) -> bool:
    """Return whether a placement ends before the deadline of a pair. '' is a refusal."""
    end = pair.runs.get(name)
    return end is not None and end[0] <= pair.deadline_s


def hindsight(pair: Pair) -> str:
    """Return the cheapest placement that met the deadline, or '' if none did."""
    met = [(end[1], name) for name, end in pair.runs.items() if end and is_met(pair, name)]
    return min(met)[1] if met else ""


def best_constant(pairs: Sequence[Pair]) -> str:
    """Return the constant that misses the fewest deadlines, and of these the cheapest."""

    def order(name: str) -> tuple[float, float]:
        return -_met(pairs, partial(_always, name)), _dollars(pairs, partial(_always, name))

    return min(pairs[0].constants, key=order)


def bars(pairs: Sequence[Pair], trained: Sequence[Trained]) -> str:
    """Return each registered bar with its verdict."""
    constant = best_constant(pairs)
    met, dear = _met(pairs, _plan), _dollars(pairs, _plan)
    way = partial(_always, constant)
    misses, constant_dear = 1 - _met(pairs, way), _dollars(pairs, way)
    hashes = {one.task: {other.weights_sha256 for other in trained if other.task == one.task} for one in trained}
    several = [task for task, values in hashes.items() if len(values) > 1]
    rows = [
        ("plan: deadlines met", f"{met:.1%}", f"at least {MET:.0%}", _verdict(met >= MET)),
        ("plan: dollars by the best in hindsight", f"{dear:.3f}", f"at most {DEAR:.2f}", _verdict(dear <= DEAR)),
        (
            f"best constant ({constant}): misses, dollars",
            f"{misses:.1%}, {constant_dear:.3f}",
            f"at least {CONSTANT_MISSES:.0%}, or {CONSTANT_DEAR}",
            _verdict(misses >= CONSTANT_MISSES or constant_dear >= CONSTANT_DEAR),
        ),
        (
            "tasks with one hash over all trained placements",
            f"{len(hashes) - len(several)}",
            f"{len(hashes)}",
            _verdict(not several),
        ),
    ]
    return markdown_table(("bar", "measured", "wanted", "verdict"), rows)


def arms(pairs: Sequence[Pair]) -> str:
    """Return a row for each way to choose."""
    ways: Mapping[str, Choice] = {
        "plan": _plan,
        "cheapest offer": lambda pair: _offers(pair)[0],
        "fastest offer": lambda pair: _offers(pair)[-1],
        **{f"constant: {name}": partial(_always, name) for name in pairs[0].constants},
        "best in hindsight": hindsight,
    }
    header = ("arm", "deadlines met", "of pairs", "dollars by the best in hindsight", "most in a pair")
    rows = []
    for name, choice in ways.items():
        shares = _quotients(pairs, choice)
        count = sum(is_met(pair, choice(pair)) for pair in pairs)
        rows.append((name, f"{count}", f"{len(pairs)}", f"{geometric_mean(shares):.3f}", f"{max(shares):.2f}"))
    return markdown_table(header, rows)


def _plan(pair: Pair) -> str:
    return pair.chosen


def _always(name: str, _: Pair) -> str:
    return name


def _offers(pair: Pair) -> list[str]:
    """Return the names of the planner's offers, the cheapest first, as the planner ordered them."""
    return [name for name in pair.runs if name not in pair.constants]


def _met(pairs: Sequence[Pair], choice: Choice) -> float:
    return fmean(is_met(pair, choice(pair)) for pair in pairs)


def _quotients(pairs: Sequence[Pair], choice: Choice) -> list[float]:
    """Return dollars by the best in hindsight, of the pairs where both ran. A missed deadline costs its dollars too."""
    ends = [(pair.runs.get(choice(pair)), pair.runs.get(hindsight(pair))) for pair in pairs]
    return [mine[1] / best[1] for mine, best in ends if mine and best] or [_LATE]


def _dollars(pairs: Sequence[Pair], choice: Choice) -> float:
    return geometric_mean(_quotients(pairs, choice))


def _verdict(is_kept: bool) -> str:
    return "kept" if is_kept else "**missed**"


def _pairs(pairs: Sequence[Pair]) -> str:
    header = (
        "task",
        "deadline, s",
        "plan",
        "took, s",
        "promised, s",
        "dollars",
        "best in hindsight",
        "dollars there",
        "",
    )
    rows = []
    for pair in pairs:
        end, best = pair.runs.get(pair.chosen), hindsight(pair)
        best_end = pair.runs.get(best)
        rows.append(
            (
                pair.task,
                f"{pair.deadline_s:.1f}",
                pair.chosen or "refused",
                f"{end[0]:.1f}" if end else "",
                f"{pair.promised[0]:.1f}" if pair.promised else "",
                f"{end[1]:.6f}" if end else "",
                best or "none",
                f"{best_end[1]:.6f}" if best_end else "",
                "" if is_met(pair, pair.chosen) else "missed" if pair.chosen else "refused",
            )
        )
    return markdown_table(header, rows)


def _weights(trained: Sequence[Trained]) -> str:
    rows = [
        (
            one.task,
            one.placement,
            one.backend,
            f"{one.seconds:.1f}",
            f"{one.dollars:.6f}",
            f"`{one.weights_sha256[:12]}`",
        )
        for one in trained
    ]
    return markdown_table(("task", "placement", "trained", "seconds", "dollars", "weights"), rows)
