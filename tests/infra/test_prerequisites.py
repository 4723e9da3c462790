"""Functions or schedules that could not work on AWS are refused by name. The shipped template is accepted."""

import pytest
from emulated_accounts import living

from marless.cloud.emulated_account import cloud_at
from marless.infra.deployment import DeploymentFault, deploy, template
from marless.infra.packaging import package_build

STACK = "marless-someone"
WRITE_LOG = """              - Sid: WriteOwnLog
                Effect: Allow
                Action: [logs:CreateLogStream, logs:PutLogEvents]
                Resource: !GetAtt ActorLogs.Arn
"""
SEND = """              - Sid: LeaveDeadLetters
                Effect: Allow
                Action: sqs:SendMessage
                Resource: !GetAtt DeadLetters.Arn
"""
WITHOUT_STREAMS = "arn:aws:logs:${AWS::Region}:${AWS::AccountId}:log-group:/marless/${AWS::StackName}/actor"
RULE = """
  Nightly:
    Type: AWS::Events::Rule
    Properties:
      ScheduleExpression: rate(1 day)
      Targets:
        - Id: Nightly
          Arn: !Ref CoordinatorAliaslive
"""
# The permission that SAM writes for the sweep is for another rule. This one is for another function.
PERMISSION = """
  NightlyPermission:
    Type: AWS::Lambda::Permission
    Properties:
      Action: lambda:InvokeFunction
      FunctionName: {function}
      Principal: {principal}
      SourceArn: !GetAtt Nightly.Arn
"""

# A policy that is attached to the role after the function exists.
ATTACHED = """
  Attached:
    Type: AWS::IAM::Policy
    DependsOn: Actor
    Properties:
      PolicyName: attached
      Roles: [!Ref ActorRole]
      PolicyDocument:
        Version: "2012-10-17"
        Statement: {Effect: Allow, Action: "sqs:*", Resource: !GetAtt DeadLetters.Arn}
"""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    built = {"runtime": package_build.RUNTIME, "architecture": package_build.ARCHITECTURE}
    with living(tmp_path_factory.mktemp("prerequisites"), package_build.ROOT, **built) as started:
        yield cloud_at(started.whereabouts)


def changed(*replacements):
    """Return the shipped template with the first occurrence of each text replaced."""
    text = template.text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def refusal(cloud, text, parameters=None):
    with pytest.raises(DeploymentFault) as refused:
        deploy(cloud, "someone", parameters or {}, template=text)
    status, _, reason = str(refused.value).partition(": ")
    assert status == f"stack {STACK} is ROLLBACK_COMPLETE"
    return reason


def with_rule(permission=""):
    return changed(("\nOutputs:", f"{RULE}{permission}\nOutputs:"))


ACTOR = "Actor (AWS::Lambda::Function): "
NIGHTLY = (
    "Nightly (AWS::Events::Rule): no AWS::Lambda::Permission lets events.amazonaws.com call the target arn:aws:lambda"
)


@pytest.mark.parametrize(
    ("text", "start", "named"),
    [
        pytest.param(
            changed(("Service: lambda.amazonaws.com", "Service: ecs-tasks.amazonaws.com")),
            f"{ACTOR}The role defined for the function cannot be assumed by Lambda: ",
            f":role/{STACK}-ActorRole-",
            id="trust",
        ),
        pytest.param(
            changed((WRITE_LOG, WRITE_LOG.replace("logs:PutLogEvents", "logs:GetLogEvents"))),
            f"{ACTOR}its log would be lost: ",
            f"lacks logs:PutLogEvents on log group /marless/{STACK}/actor",
            id="log",
        ),
        pytest.param(
            changed((WRITE_LOG, WRITE_LOG.replace("ActorLogs", "LearnerLogs"))),
            f"{ACTOR}its log would be lost: ",
            f"lacks logs:CreateLogStream on log group /marless/{STACK}/actor",
            id="log-of-another",
        ),
        pytest.param(
            # CloudWatch Logs user guide: permissions need the ARN with ":*" at its end, which GetAtt has.
            changed((WRITE_LOG, WRITE_LOG.replace("!GetAtt ActorLogs.Arn", f"!Sub {WITHOUT_STREAMS}"))),
            f"{ACTOR}its log would be lost: ",
            f"lacks logs:CreateLogStream on log group /marless/{STACK}/actor",
            id="log-group-without-streams",
        ),
        pytest.param(
            changed((SEND, "")),
            f"{ACTOR}The provided execution role does not have permissions to call SendMessage on SQS: ",
            f"{STACK}-DeadLetters-",
            id="dead-letters",
        ),
        pytest.param(
            changed(("Runtime: python3.12", "Runtime: python3.9")),
            f"{ACTOR}Runtime is python3.9, and the packages are built for python3.12",
            "",
            id="runtime",
        ),
        pytest.param(
            changed(("Architectures: [arm64]", "Architectures: [x86_64]")),
            f"{ACTOR}Architectures is x86_64, and the packages are built for arm64",
            "",
            id="architecture",
        ),
        pytest.param(with_rule(), NIGHTLY, ":function:marless-someone-coordinator:live", id="permission"),
        pytest.param(
            with_rule(PERMISSION.format(function="!Ref ActorAliaslive", principal="events.amazonaws.com")),
            NIGHTLY,
            ":function:marless-someone-coordinator:live",
            id="permission-for-another-function",
        ),
        pytest.param(
            with_rule(PERMISSION.format(function="!Ref CoordinatorAliaslive", principal="sns.amazonaws.com")),
            NIGHTLY,
            ":function:marless-someone-coordinator:live",
            id="permission-of-another-service",
        ),
    ],
)
def test_template_unfit_for_aws_is_refused_by_name(cloud, text, start, named):
    reason = refusal(cloud, text)
    assert reason.startswith(start), reason
    assert named in reason
    assert "\n" not in reason


def test_vpc_functions_need_role_for_network_interfaces(cloud):
    text = changed(("                - ec2:CreateNetworkInterface\n", ""))
    reason = refusal(cloud, text, {"Subnets": "subnet-1", "SecurityGroups": "sg-1"})
    assert reason.startswith(
        f"{ACTOR}The provided execution role does not have permissions to call CreateNetworkInterface on EC2: "
    )


def test_shipped_template_deploys_and_bad_update_rolls_back(cloud):
    # The last test of this file, because it leaves a stack. The other tests expect the refusals of a first deployment.
    before = deploy(cloud, "someone", {})
    with pytest.raises(DeploymentFault, match=r"is UPDATE_ROLLBACK_COMPLETE: Actor .* does not trust lambda"):
        deploy(cloud, "someone", {}, template=changed(("Service: lambda", "Service: ecs-tasks")))
    permission = PERMISSION.format(function="!Ref CoordinatorAliaslive", principal="events.amazonaws.com")
    right = changed((SEND, ""), ("\nOutputs:", f"{RULE}{permission}{ATTACHED}\nOutputs:"))
    assert deploy(cloud, "someone", {}, template=right).functions == before.functions
