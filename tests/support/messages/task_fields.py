"""Tasks from the fields of their parts by name."""

from typing import get_type_hints

import msgspec

from marless.functions.messages.actor import Sampling
from marless.functions.messages.exchange import Answer
from marless.functions.messages.learner import Learning
from marless.functions.messages.order import Address

_PARTS = (Address, Sampling, Learning)


def make_task(kind, **fields):
    """A task of the class `kind`. Fields of its address, its sampling and its learning may stand among its own."""
    own, parts = {}, {}
    hints = get_type_hints(kind)
    for name in kind.__struct_fields__:
        if name in fields:
            own[name] = fields.pop(name)
        elif hints[name] in _PARTS:
            parts[name] = hints[name]
    for name, part in parts.items():
        own[name] = part(**{field: fields.pop(field) for field in part.__struct_fields__ if field in fields})
    assert not fields, f"{kind.__name__} has no {', '.join(fields)}"
    return kind(**own)


def ask(handler, task, blobs):
    """Return the answer of a function's handler to the task."""
    return msgspec.json.decode(handler(msgspec.json.encode(task), blobs), type=Answer)


def changed(request, **fields):
    """The task with other values of these fields, its own or of its parts."""
    own = {name: fields.pop(name) for name in request.__struct_fields__ if name in fields}
    for name in request.__struct_fields__:
        part = getattr(request, name)
        if isinstance(part, _PARTS):
            own[name] = msgspec.structs.replace(
                part, **{field: fields.pop(field) for field in part.__struct_fields__ if field in fields}
            )
    assert not fields, f"{type(request).__name__} has no {', '.join(fields)}"
    return msgspec.structs.replace(request, **own)
