"""Resources for environments, without a run: a judge, an engine, a solver.

A factory of environments that has a parameter `resources` is given `Resources`. ``resources.call("judge", questions)``
asks a batch concurrently and returns the answers in their order. In a run they come from the tables
``[resources.NAME]``. In a notebook, or in tests of an environment, they come from `local`.

Examples:
    >>> from marless.resources import local
    >>> with local(judge={"serve": "my_judge:grade", "slots": 4}) as resources:
    ...     resources.call("judge", [b"first answer", b"second answer"])
    [b'1', b'0']
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marless.functions.resources.port import ResourceFault, Resources
from marless.user_errors import short_errors

if TYPE_CHECKING:
    from marless.runs.resources.local_resources import LocalResources

__all__ = ["ResourceFault", "Resources", "local"]


@short_errors()
def local(folder: str | os.PathLike[str] | None = None, /, **resources: dict[str, Any]) -> "LocalResources":
    """Serve resources in separate processes, by name with the keys of a table ``[resources.NAME]``.

    As a context manager it is closed at the block's end, and environments that are made and stepped within ask it:
    ``marless.environments.make``, ``check``, ``as_pettingzoo``. Otherwise call `close`.

    Args:
        folder: where answers with ``keep`` are kept. By default they last as long as it is open.
        resources: the settings of each.

    Raises:
        ConfigError: for an unknown key or an invalid value.
        UserError: for a function's module or a program that this machine does not have.
    """
    from marless.coordinator.config.loading import convert
    from marless.runs.inputs.required_packages import require_resources
    from marless.runs.resources.local_resources import LocalResources

    settings = convert({"resources": resources}, "marless.resources.local").resources
    require_resources(settings)
    return LocalResources(settings, None if folder is None else Path(folder))


__dir__ = __all__.copy
