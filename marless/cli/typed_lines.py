"""Lines of rooms that cannot know how this program is called: what they tell to type, as the shell finds it."""

import re

from marless.output import advise
from marless.program import program_name

# A command between backquotes, or what a line ends with.
_COMMAND = re.compile(r"(?<=`)marless (?=[a-z])|(?<=: )marless (?=[a-z])")
# A wheel of the environment's own index, as rooms below name it that know no folder of the source tree.
_EXTRA = re.compile(r"pip install 'marless\[(\w+)\]'")


def as_typed_here(text: str) -> str:
    """The text with commands of this program, and of pip for an extra, as they are typed here."""
    from marless.extras import EXTRAS, install

    program = program_name()
    text = _COMMAND.sub(lambda _: f"{program} ", text)
    return _EXTRA.sub(lambda match: install(match[1]) if match[1] in EXTRAS else match[0], text)


def complain(line: str) -> None:
    """The line on standard error that says why a command ends."""
    advise(f"marless: {as_typed_here(line)}")
