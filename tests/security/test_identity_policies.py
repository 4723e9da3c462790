"""Questions to the documented policies and to the template's roles. The answers follow from AWS's evaluation logic.

IAM user guide, "Policy evaluation logic": an explicit deny overrides any allow, and without an allow a request is
denied. Service Authorization Reference: the form of each service's ARNs.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from principals import ACCOUNT
from two_tenants import function, role, roles_of, scope

from aws_emulator.iam.conditions import Context
from aws_emulator.iam.policies import Policy, ServiceAction, judge, read
from marless.infra.deployment import WHO, identity_policy

REGION = "us-east-1"


class Question(NamedTuple):
    """Return whether a principal of tenant `a` may perform an action on a resource, with a request's context keys."""

    who: str
    allowed: bool
    action: str
    resource: str
    context: Context
    # Whether Lambda has made the role's session for the function.
    inside: bool


def of_row(row: Mapping[str, str]) -> Question:
    """Conditions are ``key=value``, with bars between the values of a key."""
    conditions = (text.partition("=") for text in row["condition"].split())
    context = {key: tuple(values.split("|")) for key, _, values in conditions}
    may, inside = row["may"] == "yes", row["session"] == "function"
    return Question(row["who"], may, row["action"], row["resource"], context, inside)


with Path(__file__).with_name("questions.csv").open(encoding="utf-8", newline="") as file:
    QUESTIONS = [of_row(row) for row in csv.DictReader(file)]
JUDGE = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:marless-a_judge"


@cache
def documents(who: str) -> list[dict[str, Any]]:
    if who in WHO:
        return [json.loads(identity_policy(who, ACCOUNT, REGION, "a"))]
    return roles_of(scope("a", ExternalResources="{}"))[role("a", who)]


def allowed(question: Question, policies: Sequence[Policy]) -> bool:
    context = dict(question.context)
    if question.who not in WHO and question.inside:
        own = JUDGE if question.who == "Resource" else function("a", question.who.lower(), "")
        context["lambda:sourcefunctionarn"] = (own,)
    verdict = judge(policies, ServiceAction(question.action, question.resource), context)
    return verdict.decision == "allow"


@cache
def policies(who: str, without: str = "") -> list[Policy]:
    return [
        read({**document, "Statement": [of for of in document["Statement"] if of["Sid"] != without]})
        for document in documents(who)
    ]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda of: f"{of.who}-{of.action}-{of.resource.rpartition(':')[2]}")
def test_policy_question_has_answer_of_aws(question):
    assert allowed(question, policies(question.who)) is question.allowed


@pytest.mark.parametrize("who", [*WHO, "Actor", "Learner", "Evaluator", "Coordinator", "Resource"])
def test_every_statement_decides_a_question(who):
    asked = [question for question in QUESTIONS if question.who == who]
    sids = {statement["Sid"] for document in documents(who) for statement in document["Statement"]}
    idle = {sid for sid in sids if all(allowed(of, policies(who, sid)) is of.allowed for of in asked)}
    # It denies the actions that these roles need in a VPC. A resource calls no function at all.
    beside = {"LambdaAlone"} | ({"InvokeVersionsOnly"} if who == "Resource" else set())
    assert idle == (set() if who in WHO else beside)
