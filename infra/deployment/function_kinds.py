"""Functions of kinds that other packages offer. Each is added to the template as a copy of the learner.

Such a function can do the work of actors, learners and evaluators. So its role has the permissions of all three.
"""

import re
from collections.abc import Iterable

from marless.functions.encoding import to_json_text
from marless.functions.function_specs import FUNCTIONS, FunctionSpec

_BLOCK = re.compile(r"^  Learner\w*:\n(?:    .*\n)+\n?", re.MULTILINE)
# Places that list functions or roles: an item on its own line, a list on one line, and an alarm's metric.
_ITEM = re.compile(r"^ +- !(?:Ref LearnerRole|Sub \S+-learner(?::\*)?)\n", re.MULTILINE)
_LIST = re.compile(r", !Ref LearnerRole(?=[,\]])")
_METRIC = re.compile(r"^        - Id: learner\n(?:          .*\n)+", re.MULTILINE)
_POLICY = re.compile(r"^        - PolicyName: (actor|learner|evaluator)\n(?:          .*\n)+", re.MULTILINE)
_PLACE = "        - the policies\n"
# The lines of an identity policy that name the learner.
_IDENTITY = re.compile(r'^ +"[^"]*(?:-learner|LearnerRole)(?!-image)[^"]*",\n', re.MULTILINE)

KINDS_OF_OTHERS = tuple(spec for spec in FUNCTIONS if spec.handler and spec.deployed)


def with_kinds(template: str, kinds: Iterable[FunctionSpec] = KINDS_OF_OTHERS) -> str:
    """Return the template with a function of each kind."""
    policies = tuple(_POLICY.finditer(template))
    for kind in kinds:
        of_kind = "".join(match[0].replace(f"{match[1].capitalize()}Logs", f"{_title(kind)}Logs") for match in policies)
        template = _with_blocks(template, kind, of_kind)
        for pattern in (_ITEM, _LIST, _METRIC):
            template = _repeated(pattern, template, kind)
    return template


def with_permissions(document: str, kinds: Iterable[FunctionSpec] = KINDS_OF_OTHERS) -> str:
    """Return an identity policy that covers the functions of each kind."""
    for kind in kinds:
        document = _repeated(_IDENTITY, document, kind)
    return document


def _with_blocks(template: str, kind: FunctionSpec, policies: str) -> str:
    def _extended(match: re.Match[str]) -> str:
        block = match[0].replace("marless.infra.entry.learner.", f"{kind.entry}.")
        block = re.sub(r" {6}Description: .+", lambda _: f"      Description: {to_json_text(kind.work)}", block)
        return match[0] + _renamed(_POLICY.sub(_PLACE, block), kind).replace(_PLACE, policies)

    return _BLOCK.sub(_extended, template)


def _repeated(pattern: re.Pattern[str], text: str, kind: FunctionSpec) -> str:
    return pattern.sub(lambda match: match[0] + _renamed(match[0], kind), text)


def _renamed(text: str, kind: FunctionSpec) -> str:
    return text.replace("Learner", _title(kind)).replace("learner", kind.name)


def _title(kind: FunctionSpec) -> str:
    return kind.name.capitalize()
