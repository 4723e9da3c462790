"""`marless cloud deploy` prints these lines before it asks."""

from dataclasses import replace

import pytest

from marless.cloud.accounts import Caller
from marless.cloud.deploy_messages import after, before
from marless.functions.resources.settings import Resource
from marless.infra.deployment import Deployment
from marless.infra.deployment.resource_functions import PARAMETER, to_parameter
from marless.infra.packaging.torch_users import TorchUsers

NONE = TorchUsers((), (), (), ())
DEEP = TorchUsers(("deep",), ("deep==1.0",), (), ("deep",))


def deployed(learner):
    functions = {"learner": f"arn:aws:lambda:us-east-1:111122223333:function:{learner}:7"}
    names = ("stack", "tenant", "region", "account", "bucket", "table", "dead_letters", "code")
    return Deployment(functions=functions, memory_mb={}, timeout_s={}, concurrency=None, **dict.fromkeys(names, ""))


def said(known, torch, **parameters):
    who = Caller("111122223333", "arn:aws:iam::111122223333:user/ada")
    return before(who, "us-east-1", "marless-default", known, parameters, 1000, torch)


def learner(known, torch):
    (line,) = [line for line in said(known, torch).splitlines() if line.startswith("learner")]
    return line.removeprefix("learner").strip()


@pytest.mark.parametrize("known", [None, deployed("marless-default-learner")])
def test_a_learner_without_torch_is_an_archive(known):
    assert learner(known, NONE) == "a zip archive, as no plug-in needs torch"
    assert "repository" not in said(known, NONE)
    assert "images" not in said(known, NONE)


@pytest.mark.parametrize("known", [None, deployed("marless-default-learner-image")])
def test_torch_learner_is_paid_image(known):
    assert learner(known, DEEP) == "a container image, because deep needs torch"
    assert "a container repository" in said(known, DEEP)
    assert "images" in said(known, DEEP)


@pytest.mark.parametrize(
    ("name", "torch", "removed"),
    [("marless-default-learner", DEEP, "a zip archive"), ("marless-default-learner-image", NONE, "an image")],
)
def test_learner_that_changes_kind_ends_current_runs(name, torch, removed):
    assert learner(deployed(name), torch).endswith(
        f"; runs in progress cannot go on, because their learner, {removed}, is removed"
    )


def test_long_resource_name_is_separate_from_its_source():
    resources = {"a_chess_engine": Resource(serve="my_engine:move")}
    line = "a_chess_engine my_engine:move, 1 at once, 1,769 MB, 20 s"
    assert line in said(None, NONE, **{PARAMETER: to_parameter(resources)}).splitlines()
    roles = dict.fromkeys(("actor", "learner", "evaluator", "coordinator"))
    deployment = replace(
        deployed("marless-default-learner"),
        functions=dict.fromkeys(roles, "arn:7"),
        memory_mb=dict.fromkeys(roles, 1769),
        timeout_s=dict.fromkeys(roles, 60),
        resources=resources,
    )
    assert line in after(deployment).splitlines()
