"""Functions run in the tests' process and runs draw no picture, except in tests of processes and pictures."""

import gc
from collections import Counter

import pytest
from distribution import FilesAndAccount, longest_first
from run_fixtures import *  # noqa: F403

# Test collection makes no garbage. The collector would double its time.
gc.disable()


def pytest_xdist_make_scheduler(config, log):
    return FilesAndAccount(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish(session):
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test marked `one_in(n)` one of n cases is quick, and the others wait for `make conformance`.

    Of each next n cases, the chosen case is one earlier than before, like a diagonal. Every n-th case would leave out
    values of a parameter with n values.
    """
    longest_first(items)
    cases = Counter()
    for item in items:
        if mark := item.get_closest_marker("one_in"):
            test = item.nodeid.partition("[")[0]
            if (cases[test] + cases[test] // mark.args[0]) % mark.args[0]:
                item.add_marker(pytest.mark.conformance)
            cases[test] += 1
