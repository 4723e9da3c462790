"""Commands in messages of inner modules, changed to the program's name in the user's shell."""

import re

from marless.output import advise
from marless.program import pip_name, program_name

# A command between backquotes, or at the end of a line.
_COMMAND = re.compile(r"(?<=`)marless (?=[a-z])|(?<=: )marless (?=[a-z])")
# The line for an extra, from code that knows no folder of the source tree. Other packages must not follow the extra.
_EXTRA = re.compile(r"(?<=: )pip install 'marless\[(\w+)\]'(?! ')")
_PIP = re.compile(r"(?<=: )pip install ")


def as_typed_here(text: str) -> str:
    """The text with commands of this program, and of pip, as they are typed here."""
    from marless.extras import EXTRAS, install

    program = program_name()
    text = _COMMAND.sub(lambda _: f"{program} ", text)
    text = _EXTRA.sub(lambda match: install(match[1]) if match[1] in EXTRAS else match[0], text)
    return _PIP.sub(lambda _: f"{pip_name()} install ", text)


def complain(line: str) -> None:
    """The line on standard error that says why a command ends."""
    advise(f"marless: {as_typed_here(line)}")
