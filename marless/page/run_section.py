"""The section of one run: from its facts to HTML."""

from collections.abc import Mapping, Sequence

from marless.comparison.run_evaluations import Axis
from marless.page import axis_numbers, run_charts
from marless.page.chart import Size
from marless.page.facts import BillLine, Facts, StoredBill
from marless.page.group_strip import MOST_AGENTS, strip
from marless.page.markup import Html, bullets, element, html, join, pairs, picture, table
from marless.page.run_settings import SettingRow, as_text, command, settings, value_text
from marless.reports import call_table, provenance
from marless.reports.digits import interval_digits
from marless.reports.statistics import Interval
from marless.reports.text import counted, evaluation_label, event_text, money, plus_minus, seconds
from marless.runs.summary import Summary

_MOST_EVENTS = 30


def section(facts: Facts, anchor: str, level: int, points: int, whole: bool = True) -> Html:
    """Everything about the run. `level` is the level of its headings, `points` the most of a line.

    Without `whole` the settings that have their default are left out: config.toml has them.
    """

    def part(title: str, *content: Html) -> Html:
        body = join(content)
        return element("section", element(f"h{level}", title), body) if body else Html("")

    size = Size(points=points)
    metrics = [run_charts.agent_returns(facts, size), *run_charts.learning_metrics(facts, size)]
    busy = (
        f" {facts.summary.machine.busy_text.capitalize()}." if facts.summary and facts.summary.machine.busy_text else ""
    )
    return join(
        [
            figures(facts, anchor),
            part("Learning curve", tabs_by_axis(run_charts.learning_curves(facts, Size(600, 290, points)), anchor)),
            part("Metrics of the environment", _grid(run_charts.env_metrics(facts, size))),
            part("Agents", _grid(metrics)),
            part("Groups and rollouts", _decisions(facts, size)),
            part("League", _grid([run_charts.ratings(facts, size)])),
            part("Replay", _replay(facts)),
            part("Dollars", bill_table(facts.bill, busy) if facts.bill else Html("")),
            part("Actions of resources", _grid(run_charts.action_times(facts, size)), actions_table(facts)),
            part("Settings", _settings(facts, whole)),
            part("Do it again", _again(facts)),
        ]
    )


def headline(facts: Facts) -> str:
    """The run in a line."""
    task, config = facts.config.task, facts.config
    agents = counted(len(facts.agents), "agent")
    return f"{config.algorithm.name} on {task.name}, {agents}, seed {config.seed}"


def status(run_summary: Summary | None) -> str:
    """The status of a run with this summary, and the reason."""
    if run_summary is None:
        return "unfinished"
    return f"{run_summary.status} ({run_summary.reason})" if run_summary.reason else run_summary.status


def figures(facts: Facts, anchor: str) -> Html:
    """The figures at the top."""
    run_summary, last = facts.summary, facts.lines[-1]
    items = [("Final return", *_final(facts))]
    if run_summary and (best := run_summary.absolute_return):
        mean, interval = _with_interval(best.mean, best.ci95)
        items.append(("Absolute metric", mean, f"{interval}best policies (round {best.round:,})"))
    items += [
        ("Environment steps", f"{last.env_steps:,}", counted(last.round, "round")),
        ("Training", seconds(run_summary.train_seconds if run_summary else last.seconds), _speed(facts)),
        *_lost(run_summary),
        ("Bill", money(run_summary.dollars.total if run_summary else last.dollars), "on AWS Lambda"),
        ("Status", run_summary.status if run_summary else "unfinished", run_summary.reason if run_summary else ""),
    ]
    boxes = (
        element("div", element("dt", name), element("dd", value, element("small", note))) for name, value, note in items
    )
    return element("dl", *boxes, class_="figures", id=anchor)


def tabs_by_axis(panels: Mapping[Axis, Html], anchor: str) -> Html:
    """Charts for one axis each. The reader picks an axis, by style alone, without a script."""
    inputs, labels = [], []
    for position, axis in enumerate(panels):
        key, attribute = f"{anchor}-{axis}", " checked" if position == 0 else ""
        inputs.append(
            Html(f'<input type="radio" name="{html(anchor)}-axis" id="{html(key)}" class="on-{axis}"{attribute}>')
        )
        labels.append(element("label", axis, for_=key, class_=f"to-{axis}"))
    panels_html = (element("div", panel, class_=f"panel at-{axis}") for axis, panel in panels.items())
    over = element("div", element("span", "over"), *labels, class_="axes")
    return element("div", *inputs, over, *panels_html, class_="switch") if panels else Html("")


def bill_table(bill: StoredBill, busy_text: str) -> Html:
    """Lines of the bill that are not zero, the largest first, with their share. See `Machine` for `busy_text`."""
    lines = sorted((line for line in bill.lines if line.dollars), key=lambda line: -line.dollars)
    rows = [_bill_row(line, bill.total) for line in lines]
    total = (element("b", "total"), "", "", element("b", money(bill.total)), "")
    free = counted(len(bill.lines) - len(lines), "line")
    prices = (
        f"Prices of {bill.region} as of {bill.prices_date}; {free} of zero dollars left out. {bill.note}{busy_text}"
    )
    header = ("line", "quantity", "unit price", "dollars", "share")
    return join([table(header, rows, (1, 2, 3), total), element("p", prices, class_="note")])


def actions_table(facts: Facts) -> Html:
    """Show the run's calls of resources, or '' for a run without any."""
    if facts.summary is None or not facts.summary.actions:
        return Html("")
    rows = call_table.rows(facts.summary.actions, facts.lines)
    columns = range(1, len(call_table.HEADER))
    return join([table(call_table.HEADER, rows, columns), element("p", f"{call_table.NOTE}.", class_="note")])


def _bill_row(line: BillLine, total: float) -> Sequence[object]:
    share = line.dollars / total if total else 0.0
    bar = element("span", style=f"width:{100 * share:.1f}%", class_="bar")
    quantity = f"{axis_numbers.number(line.quantity)} {line.unit}"
    price = f"${line.unit_price:.10f}".rstrip("0").rstrip(".")
    return line.name, quantity, price, money(line.dollars), join([bar, f" {100 * share:.1f} %"])


def _lost(run_summary: Summary | None) -> list[tuple[str, str, str]]:
    if run_summary is None or not run_summary.lost.attempts:
        return []
    count, _, costs = str(run_summary.lost).partition(", ")
    return [("Lost", count, costs)]


def _final(facts: Facts) -> tuple[str, str]:
    run_summary = facts.summary
    if run_summary and (final := run_summary.final_return):
        of = f"side {run_summary.side}, " if run_summary.side else ""
        mean, interval = _with_interval(final.mean, final.ci95)
        return mean, f"{interval}{of}{counted(final.episodes, 'episode')}, {evaluation_label(facts.config)}"
    if not (evaluations := run_charts.evaluations(facts)):
        return "-", "not evaluated yet"
    return plus_minus(evaluations[-1].returns), f"after round {evaluations[-1].round:,}, no final evaluation yet"


def _with_interval(mean: float, ends: Interval | None) -> tuple[str, str]:
    if ends is None:
        return axis_numbers.number(mean), ""
    text = interval_digits(mean, ends).text
    return text(mean), f"{' to '.join(map(text, ends))} (95 %), "


def _speed(facts: Facts) -> str:
    last = facts.lines[-1]
    return f"{last.env_steps / last.seconds:,.0f} steps/s" if last.seconds else ""


def _grid(charts: Sequence[Html]) -> Html:
    content = join(charts)
    return element("div", content, class_="grid") if content else content


def _decisions(facts: Facts, size: Size) -> Html:
    team_strip, groups = strip(facts.lines, facts.agents), Html("")
    if team_strip:
        hidden = len(facts.agents) - MOST_AGENTS
        more = f"; {hidden:,} further agents are not drawn" if hidden > 0 else ""
        note = element("span", f"agents in one colour learn with one network{more}")
        caption = element("figcaption", element("b", "Groups of agents"), " ", note)
        groups = element("figure", caption, team_strip, element("div", "round", class_="axis-name"))
    events = [f"Round {line.round:,}: {event_text(line)}" for line in facts.lines if line.event]
    first_events = bullets(events[:_MOST_EVENTS]) if events else Html("")
    omission = f"{len(events) - _MOST_EVENTS:,} further events are in metrics.jsonl."
    more_events = element("p", omission, class_="note") if len(events) > _MOST_EVENTS else Html("")
    return join([_grid([groups, run_charts.rollouts(facts, size)]), first_events, more_events])


def _replay(facts: Facts) -> Html:
    if facts.replay is None:
        return Html("")
    return picture(facts.replay, "image/gif", "Greedy episodes of the run's policies, animated")


def _settings(facts: Facts, whole: bool) -> Html:
    every = settings(facts.config)
    non_defaults, rest = [each for each in every if each.differs], [each for each in every if not each.differs]
    first = _settings_table(non_defaults) if non_defaults else element("p", "All settings are defaults.")
    if not whole:
        return first
    others = _settings_table(rest)
    title = element("summary", f"{counted(len(rest), 'setting')} with their default value")
    return join([first, element("details", title, others)])


def _settings_table(settings_shown: Sequence[SettingRow]) -> Html:
    rows = (
        (
            element("code", each.key),
            _value(value_text(each)),
            _value(as_text(each.default)),
            element("div", each.meaning, class_="text"),
        )
        for each in settings_shown
    )
    return table(("key", "value", "default", "meaning"), rows)


def _value(text: str) -> Html:
    return element("code", text, class_="long") if len(text) > 24 else element("code", text)


def _again(facts: Facts) -> Html:
    line = command(facts.config)
    how = element("pre", line) if line else element("p", "Save the text below as config.toml; then:")
    typed = Html("") if line else element("pre", "marless train config.toml")
    text = element("pre", facts.config_text)
    file = element("details", element("summary", "config.toml, with every setting"), text)
    return join([how, pairs(_versions(facts)), typed, file])


def _versions(facts: Facts) -> list[tuple[str, object]]:
    identity, run_summary = facts.identity, facts.summary
    machine = run_summary.machine if run_summary else None
    versions = {
        "seed": str(facts.config.seed),
        "begun": identity.created,
        "back-end": identity.backend,
        "commit of the program": identity.commit,
        **provenance.parts(identity.code_sha256, identity.environment_fingerprint),
        **{f"round {one.round + 1:,} on": str(one) for one in identity.changes},
        "SHA-256 of config.toml": identity.configs[-1] if identity.configs else None,
        "ended on": f"{machine.platform}, {counted(machine.cores, 'core')}" if machine else None,
        "SHA-256 of the weights": run_summary.weights_sha256 if run_summary else None,
    }
    return [(name, element("code", value)) for name, value in versions.items() if value]
