"""The tests that share a process in a parallel suite: tests of a file, and most that use the emulated account."""

from xdist.scheduler import LoadFileScheduling

# An account, with all processes of its functions, starts in each process of tests that uses it.
ACCOUNT = "tests/emulated/"
# The longest file: with it the account's process would be the last to end.
STUDIES = f"{ACCOUNT}test_emulated_study.py"


class FilesAndAccount(LoadFileScheduling):
    """Gives each file to one process, and all files of the account but the studies to one."""

    def _split_scope(self, nodeid):
        shares_account = nodeid.startswith(ACCOUNT) and not nodeid.startswith(STUDIES)
        return ACCOUNT if shares_account else super()._split_scope(nodeid)


def longest_first(items):
    """Moves the tests of the account, which mostly wait and take the longest, before the others."""
    items.sort(key=lambda item: not item.nodeid.startswith(ACCOUNT))
