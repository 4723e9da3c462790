"""Functions that answer, and factories of environments: the arguments that they are given, and their threads."""

import pytest

from marless.functions.encoding import from_json
from marless.functions.resources.factories import resources_for
from marless.functions.resources.port import RESOURCES, ResourceCall
from marless.functions.resources.serving.kinds.kind import NoAnswer
from marless.functions.resources.serving.kinds.registry import Kinds, begin
from marless.functions.resources.settings import Resource


def answer(name, cores=1, **settings):
    function = begin("judge", Resource(serve=f"answering_functions:{name}", **settings))
    return function.answer(ResourceCall(b"question"), cores)


@pytest.mark.parametrize("cores", [2, 1])
def test_numerical_libraries_have_the_threads_of_the_action(cores):
    assert {*from_json(answer("library_threads", cores), list[int])} == {cores}


def test_function_gets_sandbox_and_named_cores():
    assert answer("sandbox_and_cores", 3, timeout_s=10, memory_mb=256) == b"none 8 256 3"


def test_function_without_sandbox_parameter_runs_outside():
    with pytest.raises(NoAnswer, match="no parameter `sandbox`"):
        answer("library_threads", sandbox="bubblewrap")


def test_process_separates_two_settings_of_resource():
    kinds = Kinds()
    sizes = [Resource(serve="answering_functions:sandbox_and_cores", memory_mb=mb) for mb in (256, 512, 256)]
    answers = [kinds.of("judge", resource).answer(ResourceCall(b"question"), 1) for resource in sizes]
    kinds.close()
    assert answers == [b"none 16 256 1", b"none 16 512 1", b"none 16 256 1"]


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
def test_parameter_with_own_default_is_unrelated(factory, arguments):
    assert resources_for(factory) == arguments


def test_an_option_of_the_task_goes_first():
    assert resources_for(lambda resources: 0, {"resources": 5}) == {}
