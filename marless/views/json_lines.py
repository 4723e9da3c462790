"""The view for programs: one JSON object per line, with its kind in `event`."""

from typing import Any

from msgspec import structs, to_builtins

from marless.coordinator.core.state import Plan, RoundLine
from marless.functions.text.redaction import redact_settings
from marless.output import say_json
from marless.reports import statistics
from marless.runs.summary import Summary
from marless.runs.view import View


class JsonView(View):
    """Events `started`, `round`, `evaluation`, `remark` and at the end `finished` or `stopped` with the summary."""

    def start(self, name: str, folder: str) -> None:
        _say("started", run=name, folder=folder)

    def round(self, plan: Plan, line: RoundLine) -> None:
        """See `View`."""
        if line.evaluation is not None:
            evaluation = to_builtins(statistics.summary(line.evaluation.returns))
            if line.evaluation.side_returns:
                evaluation |= {"side": line.evaluation.side, "side_returns": line.evaluation.side_returns}
            if line.evaluation.env_metrics:
                evaluation |= {"env_metrics": line.evaluation.env_metrics}
            if options := plan.config.evaluation.options:
                evaluation |= {"options": redact_settings(options)}
            _say("evaluation", round=line.evaluation.round, env_steps=line.evaluation.env_steps, **evaluation)
        _say("round", sharing_event=line.event, **to_builtins(structs.replace(line, evaluation=None, event="")))

    def remark(self, text: str) -> None:
        _say("remark", text=text)

    def finish(self, plan: Plan, summary: Summary, name: str, folder: str) -> None:
        event = "finished" if summary.status == "finished" else "stopped"
        _say(event, folder=folder, summary=to_builtins(summary))


def _say(event: str, **fields: Any) -> None:
    say_json({"event": event, **fields})
