"""Patterns of sentences that are hard to read at the first try, each with its repair.

The share of such sentences is 4 to 7 % in good open-source documentation. A hit is a place to look at: some are fine.
"""

import re
from typing import NamedTuple

LONGEST = 25
"""The most words that a sentence should have."""
SHORTEST = 4
"""Fewer words are a label or a heading, not a sentence."""


class Kind(NamedTuple):
    """A habit that makes readers look twice."""

    name: str
    repair: str
    pattern: re.Pattern[str]


def _kind(name: str, repair: str, *alternatives: str) -> Kind:
    return Kind(name, repair, re.compile("|".join(alternatives)))


_NEGATION = r"\b(?:[Nn]ot?|[Nn]either|[Nn]othing|[Nn]ever|[Nn]one|[Ww]ithout|[Uu]nless|[Nn]obody|nor|cannot)\b"
_PREPOSITIONS = "of|by|to|with|from|in|on|at|for|over|through|under|against|between|after|before"

KINDS = (
    _kind(
        "clause as a noun",
        "name the thing in place of `what`, `whoever` or `who`",
        r"(?<![?\w])(?:[Ww]hat|[Ww]hoever|[Ww]hatever)\b(?!.*\?)",
        r"(?:^|[;:,] )[Ww]ho [a-z]+s\b",
    ),
    _kind(
        "pronoun for a noun",
        "repeat the noun in place of `those of`, `that of`, `the one`",
        rf"\b[Tt]hose (?:that|who|which|whose|without|{_PREPOSITIONS})\b",
        r"\bthat of\b|\b(?:is|are|than|and|as|by|with|of|to|or) that (?:of|in|with|for|without)\b",
        r"\b(?:another|the (?:first|last|other|old|new|latter|former)|its own|earlier|newer) ones?\b(?=[ ,.;:)])",
    ),
    _kind(
        "preposition before which, or whose",
        "split the sentence",
        rf"\b(?:{_PREPOSITIONS}) (?:which|whom)\b|\b[Ww]hose\b",
    ),
    _kind("two negations", "say what to do", rf"{_NEGATION}[^.;]*(?:{_NEGATION}|\bbut for\b)"),
    _kind(
        "old word",
        "use today's word: again, fix, continues, next to, no one, is, running, your",
        r"\b(?:anew|mend(?:s|ed)?|likewise|for want of|nobody|somebody|wherever|merely|beside(?! the point))\b",
        r"\b(?:go(?:es)? on|went on|come[s]? to|came to|stands? (?:for|beside|in|behind))\b",
        r"\b(?:of (?:its|their|your|our) own|at work|thereof|hence|seldom|aside|much else|all else|if need be)\b",
        r"\b(?:as such|nothing but|all but|of it all|so far as)\b",
    ),
    _kind("as with", "say `like`, or name the case", r"\b[Aa]s (?:where|with|in|those|elsewhere|ever)\b"),
    _kind("semicolon", "use a full stop", r";(?=\s)"),
    _kind("number without a leading zero", "write 0.5, with its unit", r"(?<![\w.])\.\d+\b"),
)
TOO_LONG = Kind(f"over {LONGEST} words", "split the sentence", re.compile("(?!)"))
QUESTION_WORD = _kind(
    "docstring begins with a question word",
    "begin with a verb: say what the function does or the class is",
    r"^(?:What|Whether|How|Where|Who|Which|Why|When)\b",
)


def kinds_of(sentence: str, first_of_docstring: bool = False) -> tuple[Kind, ...]:
    """Return the kinds of a sentence. `first_of_docstring` adds a kind that only first sentences can have."""
    hits = [kind for kind in KINDS if kind.pattern.search(sentence)]
    if len(sentence.split()) > LONGEST:
        hits.append(TOO_LONG)
    if first_of_docstring and QUESTION_WORD.pattern.search(sentence):
        hits.append(QUESTION_WORD)
    return tuple(hits)
