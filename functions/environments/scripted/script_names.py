"""The names of scripted players: by their env task, and a user's, ``package.module:function``."""

import re

# The name of a task's own scripted player.
SCRIPTED = "scripted"

BUILT_IN = {
    "pettingzoo:pettingzoo.classic.connect_four_v3:env": "marless.functions.environments.scripted.connect_four:choose",
    "pettingzoo:pettingzoo.classic.leduc_holdem_v4:env": "marless.functions.environments.scripted.leduc_holdem:choose",
}

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.\w+)*:[A-Za-z_]\w*")


def is_scripted_name(text: str) -> bool:
    """Return True if `text` names a scripted player, and False for a run or a file."""
    return text == SCRIPTED or _REFERENCE.fullmatch(text) is not None


def reference(text: str, task: str) -> str:
    """The scripted player of that name for an env task, as ``package.module:function``.

    Raises `ValueError` for a task without a scripted player.
    """
    if text != SCRIPTED:
        return text
    if task not in BUILT_IN:
        built_in = " and ".join(BUILT_IN)
        raise ValueError(
            f"{task} has no scripted player of its own ({built_in} have one); name yours as package.module:function"
        )
    return BUILT_IN[task]
