"""Which factories of environments are given what they may ask."""

import pytest

from marless.functions.resources.factories import resources_for
from marless.functions.resources.port import RESOURCES

GIVEN = {"resources": RESOURCES}


@pytest.mark.parametrize(
    ("factory", "arguments"),
    [
        (lambda resources: 0, GIVEN),
        (lambda size=3, *, resources=None: 0, GIVEN),
        (lambda resources=5: 0, {}),
        (lambda resources=(): 0, {}),
        (lambda **options: 0, {}),
        (lambda: 0, {}),
    ],
)
def test_a_parameter_with_a_default_of_its_own_is_about_something_else(factory, arguments):
    assert resources_for(factory) == arguments


def test_an_option_of_the_task_goes_first():
    assert resources_for(lambda resources: 0, {"resources": 5}) == {}
