"""Questions to the documented policies and to the template's roles. The answers follow from AWS's evaluation logic.

IAM user guide, "Policy evaluation logic": an explicit deny overrides any allow, and without an allow a request is
denied. Service Authorization Reference: the form of each service's ARNs.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import pytest
from principals import ACCOUNT
from two_tenants import bucket, function, role, roles_of, scope, table

from aws_emulator.iam.conditions import Context
from aws_emulator.iam.policies import Policy, ServiceAction, judge, read
from marless.infra.deployment import WHO, identity_policy

YES, NO = True, False
REGION = "us-east-1"
IN_REGION = f"{REGION}:{ACCOUNT}"
STACK = f"arn:aws:cloudformation:{IN_REGION}:stack"
LAMBDA = f"arn:aws:lambda:{IN_REGION}:function"
LOGS = f"arn:aws:logs:{IN_REGION}:log-group"
IAM = f"arn:aws:iam::{ACCOUNT}:role"
ALARM = f"arn:aws:cloudwatch:{IN_REGION}:alarm"
ECR = f"arn:aws:ecr:{IN_REGION}:repository"
TABLE = f"arn:aws:dynamodb:{IN_REGION}:table"
BUDGET = f"arn:aws:budgets::{ACCOUNT}:budget"
OBJECTS = "arn:aws:s3:::marless-a-objects-kdy3rv09zhor"
# The bucket of a tenant whose name begins like the first one's bucket.
ALIKE = "arn:aws:s3:::marless-a-objects-objects-kdy3rv09zhor"
ARTIFACTS = f"arn:aws:s3:::marless-artifacts-{ACCOUNT}-{REGION}"


class Question(NamedTuple):
    """Whether a principal of tenant `a` may perform an action on a resource, with a request's context keys."""

    who: str
    action: str
    resource: str
    allowed: bool
    context: Mapping[str, Sequence[str]] = {}
    # Whether Lambda has made the role's session for the function.
    inside: bool = True


TO_LAMBDA, TO_EC2 = ({"iam:passedtoservice": (f"{name}.amazonaws.com",)} for name in ("lambda", "ec2"))


def prefixed(prefix: str) -> Context:
    return {"s3:prefix": (prefix,)}


def updating(scope: str, *attributes: str, returned: str = "UPDATED_NEW") -> Context:
    """The context of an UpdateItem (DynamoDB developer guide, "Using IAM policy conditions")."""
    return {
        "dynamodb:leadingkeys": (scope,),
        "dynamodb:attributes": ("scope", "item", *attributes),
        "dynamodb:returnvalues": (returned,),
    }


TRAINER = [
    Question("trainer", "cloudformation:DescribeStacks", f"{STACK}/marless-a/1f", YES),
    Question("trainer", "cloudformation:DescribeStacks", f"{STACK}/marless-a-b/1f", NO),
    Question("trainer", "cloudformation:DescribeStacks", "*", NO),
    Question("trainer", "cloudformation:DeleteStack", f"{STACK}/marless-a/1f", NO),
    Question("trainer", "lambda:GetAccountSettings", "*", YES),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-actor:1", YES),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-learner:12", YES),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-learner-image:3", YES),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-evaluator:live", YES),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-coordinator:live", YES),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-actor", NO),  # which runs $LATEST
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-actor:$LATEST", NO),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-coordinator:$LATEST", NO),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-b-actor:1", NO),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-a-actor-actor:1", NO),
    Question("trainer", "lambda:InvokeFunction", f"{LAMBDA}:marless-b-actor:1", NO),
    Question("trainer", "lambda:InvokeFunction", f"arn:aws:lambda:eu-west-1:{ACCOUNT}:function:marless-a-actor:1", NO),
    Question(
        "trainer", "lambda:InvokeFunction", f"arn:aws:lambda:{REGION}:999999999999:function:marless-a-actor:1", NO
    ),
    Question("trainer", "lambda:UpdateFunctionCode", f"{LAMBDA}:marless-a-actor", NO),
    Question("trainer", "s3:ListBucket", OBJECTS, YES, prefixed("tenants/a/runs/r/")),
    Question("trainer", "s3:ListBucket", OBJECTS, NO),  # without a prefix
    Question("trainer", "s3:ListBucket", OBJECTS, NO, prefixed("tenants/a-b/")),
    Question("trainer", "s3:ListBucket", ALIKE, NO, prefixed("tenants/a-objects/runs/")),
    Question("trainer", "s3:GetObject", f"{OBJECTS}/tenants/a/runs/r/x", YES),
    Question("trainer", "s3:DeleteObject", f"{OBJECTS}/tenants/a/runs/r/x", YES),
    Question("trainer", "s3:GetObject", f"{OBJECTS}/tenants/a-b/runs/r/x", NO),
    Question("trainer", "s3:GetObject", f"{ALIKE}/tenants/a-objects/runs/r/x", NO),
    Question("trainer", "s3:GetObject", "arn:aws:s3:::marless-a-b-objects-kdy3rv09zhor/tenants/a-b/runs/r/x", NO),
    Question("trainer", "s3:PutObject", f"{ARTIFACTS}-a/actor/0.zip", NO),
    Question("trainer", "s3:PutBucketPolicy", OBJECTS, NO),
    Question("trainer", "dynamodb:Query", f"{TABLE}/marless-a-Runs-1B2C3D4E5F6G", YES),
    Question("trainer", "dynamodb:Query", f"{TABLE}/marless-a-b-Runs-1B2C3D4E5F6G", NO),
    Question("trainer", "dynamodb:UpdateItem", f"{TABLE}/marless-a-Runs-1B2C3D4E5F6G", NO),
    Question("trainer", "logs:FilterLogEvents", f"{LOGS}:/marless/marless-a/actor:*", YES),
    Question("trainer", "logs:FilterLogEvents", f"{LOGS}:/marless/marless-a-b/actor:*", NO),
    Question("trainer", "logs:DeleteLogGroup", f"{LOGS}:/marless/marless-a/actor:*", NO),
    Question("trainer", "iam:PassRole", f"{IAM}/marless-a-ActorRole-X", NO, TO_LAMBDA),
]
DEPLOYER = [
    Question(
        "deployer",
        "cloudformation:CreateChangeSet",
        f"arn:aws:cloudformation:{REGION}:aws:transform/Serverless-2016-10-31",
        YES,
    ),
    Question("deployer", "cloudformation:ExecuteChangeSet", f"{STACK}/marless-a/1f", YES),
    Question("deployer", "cloudformation:UpdateTerminationProtection", f"{STACK}/marless-a/1f", YES),
    Question("deployer", "cloudformation:DeleteStack", f"{STACK}/marless-a-b/1f", NO),
    Question("deployer", "s3:PutObject", f"{ARTIFACTS}-a/actor/0.zip", YES),
    Question("deployer", "s3:PutObject", f"{ARTIFACTS}-b-a/actor/0.zip", NO),
    Question("deployer", "s3:DeleteBucket", OBJECTS, YES),
    Question("deployer", "s3:DeleteBucket", "arn:aws:s3:::marless-a-objects-1nszd1kqqh7hr", YES),
    Question("deployer", "s3:DeleteBucket", ALIKE, NO),
    Question("deployer", "s3:DeleteBucket", "arn:aws:s3:::marless-a-b-objects-kdy3rv09zhor", NO),
    Question("deployer", "s3:DeleteObject", f"{ALIKE}/tenants/a-objects/runs/r/x", NO),
    Question("deployer", "dynamodb:DeleteTable", f"{TABLE}/marless-a-Runs-1B2C3D4E5F6G", YES),
    Question("deployer", "dynamodb:DeleteTable", f"{TABLE}/marless-a-b-Runs-1B2C3D4E5F6G", NO),
    Question("deployer", "sqs:DeleteQueue", f"arn:aws:sqs:{IN_REGION}:marless-a-DeadLetters-X", YES),
    Question("deployer", "sqs:DeleteQueue", f"arn:aws:sqs:{IN_REGION}:marless-a-b-DeadLetters-X", NO),
    Question("deployer", "sns:Subscribe", f"arn:aws:sns:{IN_REGION}:marless-a-AlarmTopic-X", YES),
    Question("deployer", "sns:Subscribe", f"arn:aws:sns:{IN_REGION}:marless-a-b-AlarmTopic-X", NO),
    Question("deployer", "events:PutTargets", f"arn:aws:events:{IN_REGION}:rule/marless-a-CoordinatorSweep-X", YES),
    Question("deployer", "events:PutTargets", f"arn:aws:events:{IN_REGION}:rule/marless-a-b-CoordinatorSweep-X", NO),
    Question("deployer", "lambda:DeleteFunction", f"{LAMBDA}:marless-a-actor:3", YES),
    Question("deployer", "lambda:UpdateFunctionCode", f"{LAMBDA}:marless-a-learner", YES),
    Question("deployer", "lambda:UpdateFunctionCode", f"{LAMBDA}:marless-a-b-learner", NO),
    Question("deployer", "logs:DeleteLogGroup", f"{LOGS}:/aws/lambda/marless-a-actor:*", YES),
    Question("deployer", "logs:DeleteLogGroup", f"{LOGS}:/aws/lambda/marless-a-actor-learner:*", NO),
    Question("deployer", "logs:DeleteLogGroup", f"{LOGS}:/marless/marless-a-b/actor:*", NO),
    Question("deployer", "cloudwatch:PutMetricAlarm", f"{ALARM}:marless-a-Errors-X", YES),
    Question("deployer", "cloudwatch:PutMetricAlarm", f"{ALARM}:marless-a-b-Errors-X", NO),
    Question("deployer", "cloudwatch:PutDashboard", f"arn:aws:cloudwatch::{ACCOUNT}:dashboard/marless-a", YES),
    Question("deployer", "cloudwatch:PutDashboard", f"arn:aws:cloudwatch::{ACCOUNT}:dashboard/marless-a-b", NO),
    Question("deployer", "budgets:ModifyBudget", f"{BUDGET}/marless-a to me@example.com", YES),
    Question("deployer", "budgets:ModifyBudget", f"{BUDGET}/marless-a-b to me@example.com", NO),
    Question("deployer", "ecr:PutImage", f"{ECR}/marless/a", YES),
    Question("deployer", "ecr:PutImage", f"{ECR}/marless/a-b", NO),
    Question("deployer", "iam:CreateRole", f"{IAM}/marless-a-ActorRole-X", YES),
    Question("deployer", "iam:CreateRole", f"{IAM}/marless-a-AdminRole-X", NO),
    Question("deployer", "iam:PutRolePolicy", f"{IAM}/marless-a-b-ActorRole-X", NO),
    Question("deployer", "iam:AttachRolePolicy", f"{IAM}/marless-a-ActorRole-X", NO),
    Question("deployer", "iam:PassRole", f"{IAM}/marless-a-ActorRole-X", YES, TO_LAMBDA),
    Question("deployer", "iam:PassRole", f"{IAM}/marless-a-ActorRole-X", NO, TO_EC2),
    Question("deployer", "iam:PassRole", f"{IAM}/marless-a-ActorRole-X", NO),
    Question("deployer", "iam:PassRole", f"{IAM}/marless-a-b-ActorRole-X", NO, TO_LAMBDA),
    Question("deployer", "iam:CreateUser", f"arn:aws:iam::{ACCOUNT}:user/marless-a", NO),
    Question("deployer", "s3:ListAllMyBuckets", "*", YES),
    Question("deployer", "ec2:RunInstances", "*", NO),
]
SET, RUNS = "sets/a/r/1/0/0", f"{TABLE}/{table('a')}"
DATASET = "rounds/offline-0123456789abcdef.dataset.safetensors"
TRAJECTORY = "rounds/000001/sample/00000-00003.trajectory.safetensors"
UNFINISHED = "rounds/000001/sample/00000-00003.unfinished.safetensors"
OWN = f"arn:aws:s3:::{bucket('a')}/tenants/a/runs/r"
TAGGED = {"s3:requestobjecttag/marless-kind": ("trajectory",), "s3:requestobjecttagkeys": ("marless-kind",)}
ROLES = [
    Question("Actor", "s3:PutObject", f"{OWN}/{TRAJECTORY}", YES),
    Question("Actor", "s3:PutObject", f"{OWN}/rounds/000001/learn/all.policies.safetensors", NO),
    Question("Actor", "s3:GetObject", f"arn:aws:s3:::{bucket('a')}/tenants/a-b/runs/r/{TRAJECTORY}", NO),
    Question("Actor", "s3:DeleteObject", f"{OWN}/{TRAJECTORY}", NO),
    Question("Actor", "s3:GetObject", f"{OWN}/{UNFINISHED}", YES),
    Question("Actor", "s3:PutObject", f"{OWN}/{UNFINISHED}", YES),
    Question("Actor", "s3:PutObjectTagging", f"{OWN}/{UNFINISHED}", NO, TAGGED),
    Question("Learner", "s3:PutObject", f"{OWN}/{UNFINISHED}", YES),
    Question("Evaluator", "s3:GetObject", f"{OWN}/{UNFINISHED}", NO),
    Question("Learner", "s3:PutObject", f"{OWN}/rounds/000001/learn/all.policies.safetensors", YES),
    Question("Evaluator", "s3:GetObject", f"{OWN}/{TRAJECTORY}", NO),
    Question("Evaluator", "s3:GetObject", f"{OWN}/rounds/000001/learn/all.policies.safetensors", YES),
    Question("Actor", "dynamodb:UpdateItem", RUNS, YES, updating(SET, "members", "expires_at")),
    Question("Actor", "dynamodb:UpdateItem", RUNS, NO, updating(SET, "members", "body")),
    Question("Actor", "dynamodb:UpdateItem", RUNS, NO, updating(SET, "members", returned="ALL_OLD")),
    Question("Actor", "dynamodb:UpdateItem", RUNS, NO, updating("sets/a-b/r/1/0/0", "members")),
    Question("Learner", "dynamodb:UpdateItem", RUNS, NO, updating("run/a/r", "members")),
    Question("Evaluator", "dynamodb:GetItem", RUNS, NO, {"dynamodb:leadingkeys": (SET,)}),
    Question("Coordinator", "dynamodb:GetItem", RUNS, YES, {"dynamodb:leadingkeys": ("run/a/r",)}),
    Question("Coordinator", "dynamodb:GetItem", RUNS, NO, {"dynamodb:leadingkeys": ("run/a-b/r",)}),
    Question("Coordinator", "dynamodb:Query", RUNS, NO),  # without a key
    Question("Actor", "lambda:InvokeFunction", function("a", "coordinator", "live"), YES),
    Question("Actor", "lambda:InvokeFunction", function("a", "coordinator", "$LATEST"), NO),
    Question("Actor", "lambda:InvokeFunction", function("a", "learner", "1"), NO),
    Question("Coordinator", "lambda:InvokeFunction", function("a", "learner-image", "2"), YES),
    Question("Coordinator", "lambda:InvokeFunction", function("a", "actor", "$LATEST"), NO),
    Question("Coordinator", "lambda:InvokeFunction", function("a", "actor", ""), NO),
    Question("Coordinator", "lambda:InvokeFunction", function("a-b", "actor", "1"), NO),
    Question("Actor", "s3:PutObject", f"{OWN}/{TRAJECTORY}", NO, inside=NO),
    Question("Coordinator", "lambda:InvokeFunction", function("a", "actor", "1"), NO, inside=NO),
    Question("Coordinator", "dynamodb:GetItem", RUNS, NO, {"dynamodb:leadingkeys": ("run/a/r",)}, inside=NO),
    # Lambda sends dead letters itself.
    Question("Coordinator", "sqs:SendMessage", f"arn:aws:sqs:{IN_REGION}:marless-a-dead", YES, inside=NO),
    Question("Coordinator", "iam:PassRole", role("a", "Actor"), NO, TO_LAMBDA),
]
REPLY = "rounds/000001/evaluate/000.reply.safetensors"
POLICIES = f"{OWN}/rounds/000001/learn/all.policies.safetensors"
ROLES += [
    Question("Actor", "s3:GetObject", POLICIES, YES),
    Question("Actor", "s3:PutObjectTagging", f"{OWN}/{TRAJECTORY}", YES, TAGGED),
    Question("Actor", "s3:PutObjectTagging", f"{OWN}/{TRAJECTORY}", NO, {"s3:requestobjecttagkeys": ("public",)}),
    Question("Learner", "s3:GetObject", f"{OWN}/{TRAJECTORY}", YES),
    Question("Actor", "s3:GetObject", f"{OWN}/{DATASET}", YES),
    Question("Actor", "s3:PutObject", f"{OWN}/{DATASET}", NO),
    Question("Learner", "s3:GetObject", f"{OWN}/{DATASET}", YES),
    Question("Learner", "s3:PutObject", f"{OWN}/{DATASET}", NO),
    Question("Evaluator", "s3:GetObject", f"{OWN}/{DATASET}", NO),
    Question("Learner", "s3:PutObject", f"{OWN}/{TRAJECTORY}", NO),
    Question("Evaluator", "s3:PutObject", f"{OWN}/{REPLY}", YES),
    Question("Evaluator", "s3:PutObject", POLICIES, NO),
    Question("Coordinator", "s3:DeleteObject", POLICIES, YES),
    Question("Coordinator", "s3:ListBucket", f"arn:aws:s3:::{bucket('a')}", YES, prefixed("tenants/a/runs/r/ledger/")),
    Question("Coordinator", "s3:ListBucket", f"arn:aws:s3:::{bucket('a')}", NO, prefixed("tenants/a-b/runs/r/")),
]
for worker in ("Actor", "Learner", "Evaluator"):
    wake, at = function("a", "coordinator", "live"), f"arn:aws:s3:::{bucket('a')}"
    ROLES += [
        Question(worker, "s3:ListBucket", at, YES, prefixed("tenants/a/runs/r/rounds/000001/x")),
        Question(worker, "s3:ListBucket", at, NO, prefixed("tenants/a/runs/r/ledger/")),
        Question(worker, "dynamodb:UpdateItem", RUNS, YES, updating(SET, "members", "expires_at")),
        Question(worker, "lambda:InvokeFunction", wake, YES),
        Question(worker, "lambda:InvokeFunction", wake.replace("live", "$LATEST"), NO),
        Question(worker, "lambda:InvokeFunction", wake, NO, inside=NO),
    ]
for name in ("Actor", "Learner", "Evaluator", "Coordinator"):
    streams = f"{LOGS}:/marless/a/{{}}:log-stream:2026/11/23/[1]0f"
    other = "Learner" if name == "Actor" else "Actor"
    ROLES += [
        Question(name, "logs:PutLogEvents", streams.format(name.lower()), YES),
        Question(name, "logs:PutLogEvents", streams.format(other.lower()), NO),
        Question(name, "sqs:SendMessage", f"arn:aws:sqs:{IN_REGION}:marless-a-dead", YES, inside=NO),
        Question(name, "sqs:ReceiveMessage", f"arn:aws:sqs:{IN_REGION}:marless-a-dead", NO),
    ]
ANSWER, JUDGE = f"{OWN}/answers/0123", f"arn:aws:lambda:{IN_REGION}:function:marless-a_judge"
ACTIONS = f"{OWN}/rounds/000001/sample/00000-00003.actions.safetensors"
for worker in ("Actor", "Learner", "Evaluator"):
    ROLES += [
        Question(worker, "lambda:InvokeFunction", f"{JUDGE}:3", YES),
        Question(worker, "lambda:InvokeFunction", f"{JUDGE}:$LATEST", NO),
        Question(worker, "lambda:InvokeFunction", JUDGE, NO),
        Question(worker, "lambda:InvokeFunction", f"{JUDGE}:3".replace("-a_", "-a-b_"), NO),
        Question(worker, "s3:GetObject", ANSWER, YES),
        Question(worker, "s3:PutObject", ANSWER, NO),
        Question(worker, "s3:PutObject", ACTIONS, YES),
        Question(worker, "s3:ListBucket", at, YES, prefixed("tenants/a/runs/r/answers/0123")),
        Question(worker, "s3:ListBucket", at, NO, prefixed("tenants/a-b/runs/r/answers/0123")),
    ]
ROLES += [
    Question("Coordinator", "lambda:InvokeFunction", f"{JUDGE}:3", NO),
    Question("Resource", "s3:GetObject", ANSWER, YES),
    Question("Resource", "s3:PutObject", ANSWER, YES),
    Question("Resource", "s3:DeleteObject", ANSWER, NO),
    Question("Resource", "s3:PutObject", ANSWER.replace("/a/runs", "/a-b/runs"), NO),
    Question("Resource", "s3:GetObject", f"{OWN}/{TRAJECTORY}", NO),
    Question("Resource", "s3:GetObject", POLICIES, NO),
    Question("Resource", "dynamodb:GetItem", RUNS, NO, {"dynamodb:leadingkeys": ("run/a/r",)}),
    Question("Resource", "dynamodb:UpdateItem", RUNS, NO, updating(SET, "members", "expires_at")),
    Question("Resource", "lambda:InvokeFunction", f"{JUDGE}:3", NO),
    Question("Resource", "lambda:InvokeFunction", function("a", "coordinator", "live"), NO),
    Question("Resource", "logs:PutLogEvents", f"{LOGS}:/marless/a/resource:log-stream:2026/11/23/[1]0f", YES),
    Question("Resource", "logs:PutLogEvents", f"{LOGS}:/marless/a/actor:log-stream:2026/11/23/[1]0f", NO),
    Question("Resource", "s3:GetObject", ANSWER, NO, inside=NO),
    Question("Resource", "s3:ListBucket", at, YES, prefixed("tenants/a/runs/r/answers/0123")),
    Question("Resource", "s3:ListBucket", at, NO, prefixed("tenants/a/runs/r/rounds/000001/x")),
    Question("Resource", "sqs:SendMessage", f"arn:aws:sqs:{IN_REGION}:marless-a-dead", YES, inside=NO),
]
DEPLOYER += [
    Question("deployer", "lambda:CreateFunction", JUDGE, YES),
    Question("deployer", "lambda:CreateFunction", JUDGE.replace("-a_", "-a-b_"), NO),
    Question("deployer", "iam:CreateRole", f"{IAM}/marless-a-ResourceRole-X", YES),
    Question("deployer", "iam:PassRole", f"{IAM}/marless-a-ResourceRole-X", YES, TO_LAMBDA),
    Question("deployer", "iam:PassRole", f"{IAM}/marless-a-b-ResourceRole-X", NO, TO_LAMBDA),
]
QUESTIONS = [*TRAINER, *DEPLOYER, *ROLES]


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
def test_a_question_has_the_answer_that_aws_would_give(question):
    assert allowed(question, policies(question.who)) is question.allowed


@pytest.mark.parametrize("who", [*WHO, "Actor", "Learner", "Evaluator", "Coordinator", "Resource"])
def test_every_statement_decides_a_question(who):
    asked = [question for question in QUESTIONS if question.who == who]
    sids = {statement["Sid"] for document in documents(who) for statement in document["Statement"]}
    idle = {sid for sid in sids if all(allowed(of, policies(who, sid)) is of.allowed for of in asked)}
    # It denies what these roles are only allowed in a VPC. A resource calls no function at all.
    beside = {"LambdaAlone"} | ({"InvokeVersionsOnly"} if who == "Resource" else set())
    assert idle == (set() if who in WHO else beside)
