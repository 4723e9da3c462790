"""Services, and handlers for their functions."""

import pytest
from emulated_service import DEEDS, Meeting, serving


@pytest.fixture(scope="module")
def shared():
    """One service for all tests that do not change it."""
    with serving() as service:
        service.lambdas.publish(DEEDS)
        yield service


@pytest.fixture
def meeting(tmp_path):
    return Meeting(tmp_path)


@pytest.fixture
def loop(tmp_path):
    return {"do": "again", "file": str(tmp_path / "runs"), "how": "RequestResponse"}
