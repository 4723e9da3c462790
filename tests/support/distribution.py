"""Which tests share a process where several run the suite: those of a file, and all that use the emulated account."""

from xdist.scheduler import LoadFileScheduling

# An account, with all processes of its functions, starts in each process of tests that uses it.
ACCOUNT = "tests/emulated/"


class FilesAndAccount(LoadFileScheduling):
    """Gives each file to one process, and all files of the account to one."""

    def _split_scope(self, nodeid):
        return ACCOUNT if nodeid.startswith(ACCOUNT) else super()._split_scope(nodeid)


def longest_first(items):
    """Moves the tests of the account, which mostly wait and take the longest, before the others."""
    items.sort(key=lambda item: not item.nodeid.startswith(ACCOUNT))
