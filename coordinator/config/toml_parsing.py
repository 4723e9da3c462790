"""TOML, with bounds where the standard parser has none."""

import re
import tomllib
from typing import Any

from marless.functions.encoding import Undecodable

# A megabyte of settings: a thousand times the size of the largest example.
MOST_BYTES = 1 << 20
# A key of a run has at most three parts. Keys of a task's options may be deeper.
MOST_PARTS = 32

_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*"""
# The standard parser takes a time and a memory that grow as the square of a key's parts.
_LONG_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*(?:{_PART}){{{MOST_PARTS}}}", re.MULTILINE)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a document. Raises `Undecodable`."""
    if len(text) > MOST_BYTES:
        raise Undecodable(f"it has {len(text):,} characters, more than {MOST_BYTES:,}")
    if long := _LONG_KEY.search(text):
        line = text.count("\n", 0, long.start()) + 1
        raise Undecodable(f"a key has more than {MOST_PARTS} parts (at line {line})")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise Undecodable("it is nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        raise Undecodable(str(error)) from error
    except ValueError as error:  # from `int`, which takes no more digits and tells no place
        raise Undecodable("a number has more digits than any setting takes") from error
