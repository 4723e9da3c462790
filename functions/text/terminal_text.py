"""Foreign text for a terminal: control characters, which a terminal would obey, become escapes.

Names of agents and metrics, messages of environments and keys of files come from others. ``ESC [2J`` in one of them
clears the screen, and a line break forges a line of ours. The marks of right-to-left text change the order of reading
(CVE-2021-42574).
"""

import re

# C0 but the tab, DEL, C1, marks and isolates of the direction of text (UAX 9, 2.1 to 2.6). Also separators of lines and
# paragraphs, the byte order mark, and halves of surrogate pairs, which no encoding takes.
_OBEYED = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def visible(line: str) -> str:
    """`line` with such characters as JSON writes them: ``\\n``, ``\\u001b``."""
    return _OBEYED.sub(_escape, line)


def visible_text(text: str) -> str:
    """Return several lines with their line breaks."""
    return "\n".join(map(visible, text.split("\n")))


def _escape(match: re.Match[str]) -> str:
    return {"\n": "\\n", "\r": "\\r"}.get(match[0], f"\\u{ord(match[0]):04x}")
