"""The resources of a run's environments, for commands that play its team in their own process."""

from collections.abc import Iterator
from contextlib import contextmanager

from marless.runs.folder import RunFolder


@contextmanager
def resources_of(folder: RunFolder) -> Iterator[None]:
    """Within the block environments of this process ask the resources of the run's configuration, which are served for
    it alone."""
    if resources := folder.config().resources:
        from marless.runs.resources.local_resources import LocalResources

        with LocalResources(resources):
            yield
    else:
        yield
