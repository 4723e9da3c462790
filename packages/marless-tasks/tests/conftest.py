"""What a user decides outside the program."""

import pytest
from shell import Shell


@pytest.fixture
def shell():
    with Shell() as shell:
        yield shell
