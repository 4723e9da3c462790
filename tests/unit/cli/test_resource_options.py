"""External resources as options of `marless cloud deploy`, and the resources that a run may ask of a deployment."""

import pytest
from msgspec.structs import replace

from marless.cloud.resource_options import merged, parse
from marless.cloud.run_resources import fit_resources
from marless.coordinator.errors import UserError
from marless.functions.resources.settings import Resource

JUDGE = Resource(serve="my_judge:grade")
DEPLOY = "marless cloud deploy"


@pytest.mark.parametrize(
    ("text", "resource"),
    [
        ("judge=my_judge:grade", JUDGE),
        ("judge=a.b:grade,slots=4,memory_mb=512", Resource(serve="a.b:grade", slots=4, memory_mb=512)),
        ("judge=https://example.com/a?b=c,timeout_s=1.5", Resource(http="https://example.com/a?b=c", timeout_s=1.5)),
    ],
)
def test_resource_has_name_source_and_settings(text, resource):
    assert parse(text) == ("judge", resource)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("judge", "is not a resource such as judge=my_judge:grade,slots=4"),
        ("Judge=a:b", "is not a resource such as"),
        ("judge=", "is not a resource such as"),
        ("judge=stockfish", "'stockfish' is neither module:function nor the address of a service"),
        ("judge=a:b,slots=0", "judge: slots: it is not a whole number of at least 1"),
        ("judge=a:b,slots=many", "judge: slots: "),
        ("judge=a:b,sandbox=bubblewrap", "is none of slots=..., memory_mb=..., timeout_s=..., attempts=..."),
    ],
)
def test_malformed_resource_is_refused_with_example(text, fault):
    with pytest.raises(ValueError) as refused:
        parse(text)
    assert fault in str(refused.value)


def test_deployment_keeps_resources_not_named_by_command():
    other = replace(JUDGE, slots=2)
    assert merged({"a": JUDGE, "b": JUDGE}, {"a": other, "b": None}) == {"a": other}
    assert merged({"a": JUDGE}, {}) == {"a": JUDGE}
    with pytest.raises(UserError, match="--no-resource c: no such resource is deployed"):
        merged({"a": JUDGE}, {"c": None})


def test_a_run_takes_the_sizes_of_the_deployment():
    there = replace(JUDGE, slots=4, timeout_s=5.0)
    run = replace(JUDGE, keep=True)
    assert fit_resources({"judge": run}, {"judge": there}, DEPLOY) == {"judge": replace(there, keep=True)}
    assert fit_resources({"judge": there}, {"judge": there}, DEPLOY) == {"judge": there}


@pytest.mark.parametrize(
    ("resource", "fault"),
    [
        (
            Resource(serve="other:grade", slots=2),
            "resources.judge: other:grade was asked for, and my_judge:grade is deployed; deploy again with:"
            " marless cloud deploy --resource judge=other:grade,slots=2",
        ),
        (
            replace(JUDGE, slots=2),
            "resources.judge.slots: 2 was asked for, and 4 is deployed; leave it out, or deploy again with:"
            " marless cloud deploy --resource judge=my_judge:grade,slots=2",
        ),
        (Resource(command="cat"), "resources.judge.command: functions on AWS have no such program"),
        (replace(JUDGE, sandbox="bubblewrap"), "resources.judge.sandbox: Lambda has no bubblewrap"),
        (replace(JUDGE, rate="5/s"), "resources.judge.rate: on AWS only slots limit a resource"),
    ],
)
def test_differing_or_impossible_resource_is_refused(resource, fault):
    with pytest.raises(UserError) as refused:
        fit_resources({"judge": resource}, {"judge": replace(JUDGE, slots=4)}, DEPLOY)
    assert fault in str(refused.value) and "\n" not in str(refused.value)


def test_undeployed_resource_is_refused_with_deploy_command():
    with pytest.raises(UserError) as refused:
        fit_resources({"judge": replace(JUDGE, slots=4)}, {}, DEPLOY)
    assert str(refused.value) == (
        "resources.judge is not deployed; add it with: marless cloud deploy --resource judge=my_judge:grade,slots=4"
    )
