"""Messages of commands on the terminal: questions before they act, and their ends."""

from contextlib import suppress

from marless.cli.typed_lines import complain
from marless.coordinator.errors import Ending, UserError
from marless.output import ask, say_text
from marless.runs.folder import RunFolder
from marless.runs.integrity.trusted_origin import doubt_of, require_trust
from marless.runs.run_store import RUNS


def confirm(question: str, yes: bool) -> None:
    """Return if the user agrees or `yes` is set. Raises `UserError` otherwise, and without a terminal to ask on."""
    if yes:
        return
    try:
        answer = ask(f"{question} [y/N] ")
    except LookupError:
        raise UserError("no terminal to confirm on; pass --yes") from None
    if answer.lower() not in ("y", "yes"):
        raise UserError("cancelled; nothing was changed")


def playable(text: str, trust: bool) -> RunFolder:
    """Return the run that the user wants to play. Ask once before its configuration may run foreign code.

    Raises `UserError`.
    """
    folder = RUNS.find(text)
    if not trust and (doubt := doubt_of(folder)):
        with suppress(LookupError):
            trust = ask(f"{doubt}; do you trust it? [y/N] ").lower() in ("y", "yes")
    require_trust(folder, trust, "pass --trust")
    return folder


def report_ending(ending: Ending) -> int:
    """Print the ending's result and line, if any. Return the exit code."""
    if ending.result:
        say_text(ending.result)
    if ending.line:
        complain(" ".join(ending.line.split()))
    return ending.code
