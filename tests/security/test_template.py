"""Properties of the template and of its translation."""

import json
import re
from functools import cache
from typing import Any

import pytest
import yaml
from samtranslator.yaml_helper import yaml_parse
from shell import Shell
from two_tenants import ROLES, TEMPLATE, resources, roles_of, scope

from aws_emulator.cloudformation.intrinsics import Scope
from aws_emulator.iam.policies import ServiceAction, judge, read
from marless.backends import aws
from marless.cloud.deployments import INIT_LIMIT_MS
from marless.infra.deployment.template import fill_in
from marless.infra.packaging.package_build import ENTRIES

HANDLERS = {
    "Actor": "marless.infra.entry.actor.handler",
    "Learner": "marless.infra.entry.learner.handler",
    "Evaluator": "marless.infra.entry.evaluator.handler",
    "Coordinator": "marless.coordinator.drive.handler.handler",
}
# Actions that Lambda needs in every role, and each role's further actions.
OF_ALL = {
    "logs:CreateLogStream",
    "logs:PutLogEvents",
    "sqs:SendMessage",
    "s3:GetObject",
    "s3:PutObject",
    "s3:ListBucket",
}
OF_ALL |= {"dynamodb:UpdateItem", "lambda:InvokeFunction"}
OF_ONE = {
    "Actor": {"s3:PutObjectTagging"},
    "Learner": set(),
    "Evaluator": set(),
    "Coordinator": {
        "s3:DeleteObject",
        *(f"dynamodb:{call}" for call in ("BatchGetItem", "DeleteItem", "GetItem", "PutItem", "Query")),
    },
}


@cache
def source() -> dict[str, Any]:
    return yaml_parse(TEMPLATE.read_text())


def of_type(type_: str, **parameters: str) -> dict[str, dict[str, Any]]:
    """The resources of a type in tenant alpha's stack, resolved as far as possible without creating them."""
    return dict(resources(scope("alpha", **parameters), type_))


def versions(**parameters: str) -> set[str]:
    return set(of_type("AWS::Lambda::Version", **parameters))


def statements(stack: Scope, name: str) -> list[dict[str, Any]]:
    documents = roles_of(stack)[stack.resources[f"{name}Role"][1]["Arn"]]
    return [statement for document in documents for statement in document["Statement"]]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


# ---- The file ----


def test_the_file_is_one_that_cloudformation_takes() -> None:
    code = {
        role: f"s3://marless-artifacts-{'1' * 12}-us-gov-east-1-{'a' * 31}/{role}/{'0' * 64}.zip" for role in ENTRIES
    }
    text = fill_in(TEMPLATE.read_text(), code, {})
    # API_CreateStack, TemplateBody. YAML aliases: user guide, "CloudFormation template formats".
    assert len(text.encode()) <= 51_200
    tokens = yaml.scan(text)
    assert not [token for token in tokens if isinstance(token, yaml.AnchorToken | yaml.AliasToken)]


def test_there_is_a_function_for_every_package() -> None:
    functions = {name for name, of in source()["Resources"].items() if of["Type"] == "AWS::Serverless::Function"}
    assert functions == set(HANDLERS)
    assert {name.lower() for name in functions} == set(ENTRIES)
    for name, handler in HANDLERS.items():
        assert handler == f"{ENTRIES[name.lower()]}.handler"


def test_outputs_describe_deployment() -> None:
    each = {f"{name}{what}" for name in HANDLERS for what in ("Function", "Version", "Memory", "Timeout")}
    assert set(source()["Outputs"]) == each | {"Bucket", "Table", "DeadLetterQueue", "Code", "Concurrency"}


def test_parameters_are_bounded_as_lambda_bounds_them() -> None:
    parameters = source()["Parameters"]
    for name in HANDLERS:
        # Lambda developer guide, "Lambda quotas".
        assert (parameters[f"{name}Memory"]["MinValue"], parameters[f"{name}Memory"]["MaxValue"]) == (128, 10240)
        assert parameters[f"{name}Timeout"]["MaxValue"] == 900
    # The coordinator gives an attempt up after its time-out, the longest start, and the grace (see `_deadline` in
    # detached_turn.py). A learner's event must start by then, and may wait almost as long.
    longest = max(parameters[f"{name}Timeout"]["Default"] for name in HANDLERS)
    given_up = longest + INIT_LIMIT_MS / 1000 + aws._GRACE_S
    assert given_up - 60 <= parameters["EventAge"]["Default"] <= given_up
    # API_PutFunctionEventInvokeConfig.
    assert (parameters["EventAge"]["MinValue"], parameters["EventAge"]["MaxValue"]) == (60, 21600)


@pytest.mark.parametrize(
    ("tenant", "allowed"),
    [("default", True), ("a", True), ("lab-2", True), ("2b", True), ("a" * 31, True)]
    + [(tenant, False) for tenant in ("", "-a", "A", "a/b", "a*", "a b", "ü", "a" * 32, "a\n")],
)
def test_tenant_name_is_safe_in_keys_and_policies(tenant: str, allowed: bool) -> None:
    # CloudFormation matches parameters against the whole pattern.
    assert bool(re.fullmatch(source()["Parameters"]["Tenant"]["AllowedPattern"], tenant)) is allowed


def test_the_longest_names_fit() -> None:
    # API_CreateFunction: at most 64 characters.
    assert len(f"marless-{'a' * 31}-coordinator") <= 64


# ---- Functions ----


@pytest.mark.parametrize("name", HANDLERS)
def test_a_function_is_what_the_plan_says(name: str) -> None:
    function = of_type("AWS::Lambda::Function")[name]
    assert function["Architectures"] == ["arm64"]
    assert (function["Handler"], function["Runtime"]) == (HANDLERS[name], "python3.12")
    assert function["Role"] == {"Fn::GetAtt": [f"{name}Role", "Arn"]}
    assert function["LoggingConfig"] == {"LogGroup": {"Ref": f"{name}Logs"}}
    assert function["RecursiveLoop"] == "Allow"
    assert function["DeadLetterConfig"] == {"TargetArn": {"Fn::GetAtt": ["DeadLetters", "Arn"]}}
    assert function["MemorySize"] == {"Ref": f"{name}Memory"}
    assert function["Timeout"] == {"Ref": f"{name}Timeout"}


@pytest.mark.parametrize("name", HANDLERS)
def test_function_knows_deployment_and_uses_one_thread(name: str) -> None:
    variables = of_type("AWS::Lambda::Function")[name]["Environment"]["Variables"]
    assert variables["MARLESS_BUCKET"] == {"Ref": "Objects"}
    assert variables["MARLESS_TABLE"] == {"Ref": "Runs"}
    assert variables["MARLESS_TENANT"] == {"Ref": "Tenant"}
    assert variables["MARLESS_CODE"] == {"Ref": "Code"}
    assert variables["POWERTOOLS_SERVICE_NAME"] == name.lower()
    assert variables["POWERTOOLS_LOG_LEVEL"] == {"Ref": "LogLevel"}
    assert {variables[f"{library}_NUM_THREADS"] for library in ("OMP", "OPENBLAS", "MKL")} == {"1"}
    assert variables["PYTHONHASHSEED"] == "0"


def test_lambda_never_retries_on_alias_or_version() -> None:
    configs = of_type("AWS::Lambda::EventInvokeConfig").values()
    assert len(configs) == 2 * len(HANDLERS)
    assert {config["MaximumRetryAttempts"] for config in configs} == {0}
    qualifiers = [config["Qualifier"] for config in configs]
    assert qualifiers.count("live") == len(HANDLERS)
    document = {tuple(qualifier["Fn::GetAtt"]) for qualifier in qualifiers if qualifier != "live"}
    assert document == {(version, "Version") for version in versions()}


def test_version_keeps_settings_when_replaced() -> None:
    template = scope("alpha").template["Resources"]
    for logical in versions():
        assert template[logical]["DeletionPolicy"] == "Retain"
    for name in HANDLERS:
        assert template[f"{name}Events"]["UpdateReplacePolicy"] == "Retain"


def test_another_release_is_another_version_of_every_function() -> None:
    first, second = versions(Release="1" * 64), versions(Release="2" * 64)
    assert len(first) == len(second) == len(HANDLERS)
    assert not first & second
    assert versions(Release="1" * 64) == first


def test_changed_size_publishes_only_with_release() -> None:
    assert versions(ActorMemory="512") == versions()


@pytest.mark.parametrize(("given", "reserved"), [("0", None), ("25", "25")])
def test_workers_have_own_concurrency_only_on_request(given: str, reserved: str | None) -> None:
    stack = scope("alpha", WorkerConcurrency=given)
    functions = {
        name: stack.resolve(properties.get("ReservedConcurrentExecutions", {"Ref": "AWS::NoValue"}))
        for name, properties in resources(stack, "AWS::Lambda::Function")
    }
    assert functions == {"Actor": reserved, "Learner": reserved, "Evaluator": reserved, "Coordinator": None}


def test_sweep_wakes_coordinator_alias_every_minute() -> None:
    (rule,) = of_type("AWS::Events::Rule").values()
    assert rule["ScheduleExpression"] == "rate(1 minute)"
    (target,) = rule["Targets"]
    assert target["Arn"] == {"Ref": "CoordinatorAliaslive"}
    assert json.loads(target["Input"]) == {"sweep": True}
    assert target["RetryPolicy"] == {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
    (permission,) = of_type("AWS::Lambda::Permission").values()
    assert permission["Principal"] == "events.amazonaws.com"
    assert permission["FunctionName"] == {"Ref": "CoordinatorAliaslive"}
    assert permission["SourceArn"] == {"Fn::GetAtt": ["CoordinatorSweep", "Arn"]}


# ---- Roles ----


@pytest.mark.parametrize("name", ROLES)
def test_role_has_listed_actions_without_wildcards(name: str) -> None:
    every = statements(scope("alpha"), name)
    denied = [statement["Sid"] for statement in every if statement["Effect"] == "Deny"]
    assert denied == ["InvokeVersionsOnly", "ThroughTheFunctionsOnly", "LambdaAlone"]
    found = [statement for statement in every if statement["Effect"] == "Allow"]
    assert all({"NotAction", "NotResource"}.isdisjoint(statement) for statement in found)
    assert {action for statement in found for action in listed(statement["Action"])} == OF_ALL | OF_ONE[name]
    for resource in (resource for statement in found for resource in listed(statement["Resource"])):
        assert re.match(r"arn:aws:(s3:::marless-alpha-objects|\w+:us-east-1:123456789012:)", resource)
        assert "*" not in resource.split(":", 5)[5].split("/")[0].removesuffix(":*")


@pytest.mark.parametrize("name", ROLES)
def test_a_role_is_held_to_its_tenants_keys(name: str) -> None:
    for statement in statements(scope("alpha"), name):
        if statement["Effect"] == "Deny":
            continue
        (service,) = {action.partition(":")[0] for action in listed(statement["Action"])}
        condition = statement.get("Condition", {})
        if statement["Action"] == "s3:ListBucket":
            assert condition["StringLike"]["s3:prefix"].startswith("tenants/alpha/runs/")
        elif service == "s3":
            beginning = "arn:aws:s3:::marless-alpha-objects/tenants/alpha/runs/*"
            assert all(resource.startswith(beginning) for resource in listed(statement["Resource"]))
        elif service == "dynamodb":
            keys = listed(condition["ForAllValues:StringLike"]["dynamodb:LeadingKeys"])
            assert all(re.fullmatch(r"(run|sets)/alpha/\*|(live|budget)/alpha", key) for key in keys)
            assert condition["Null"] == {"dynamodb:LeadingKeys": "false"}
        elif service == "lambda":
            called = r"arn:aws:lambda:us-east-1:123456789012:function:marless-alpha-[a-z]+(-image)?:\*"
            assert all(re.fullmatch(called, resource) for resource in listed(statement["Resource"]))


@pytest.mark.parametrize("name", ROLES)
def test_only_lambda_assumes_a_role(name: str) -> None:
    (trust,) = of_type("AWS::IAM::Role")[f"{name}Role"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust == {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}


@pytest.mark.parametrize(("tracing", "granted"), [("Active", True), ("Disabled", False)])
def test_traces_may_be_sent_where_they_are_wanted(tracing: str, granted: bool) -> None:
    stack = scope("alpha", Tracing=tracing)
    for name in ROLES:
        allowed = [statement for statement in statements(stack, name) if statement["Effect"] == "Allow"]
        wide = [statement for statement in allowed if statement["Resource"] == "*"]
        assert [statement["Sid"] for statement in wide] == (["SendTraces"] if granted else [])
    functions = [of for _, of in resources(stack, "AWS::Lambda::Function")]
    modes = {stack.resolve(of["TracingConfig"]["Mode"]) for of in functions if "TracingConfig" in of}
    assert modes == ({tracing} if granted else set())
    # The variable that marless.infra.entry.instrumentation reads.
    assert {stack.resolve(of["Environment"]["Variables"]["MARLESS_TRACING"]) for of in functions} == {tracing}


# ---- Guard rails of a company ----

KEY = "arn:aws:kms:us-east-1:123456789012:key/0000-1"


def resolved(stack: Scope, type_: str) -> list[dict[str, Any]]:
    return [stack.resolve(properties) for _, properties in resources(stack, type_)]


def sids(stack: Scope, name: str) -> list[str]:
    return [statement["Sid"] for statement in statements(stack, name)]


def test_roles_have_boundary_and_path_only_if_given() -> None:
    boundary = "arn:aws:iam::123456789012:policy/company"
    for given, expected in ((("", "/"), (None, "/")), ((boundary, "/company/"), (boundary, "/company/"))):
        stack = scope("alpha", PermissionsBoundary=given[0], RolePath=given[1])
        found = {(role.get("PermissionsBoundary"), role["Path"]) for _, role in roles_with_bounds(stack)}
        assert found == {expected}


def roles_with_bounds(stack: Scope) -> list[tuple[str, dict[str, Any]]]:
    wanted = ("PermissionsBoundary", "Path")
    return [
        (name, stack.resolve({key: properties[key] for key in wanted if key in properties}))
        for name, properties in resources(stack, "AWS::IAM::Role")
    ]


def test_data_are_encrypted_by_aws_or_given_key() -> None:
    for key in ("", KEY):
        stack = scope("alpha", KmsKey=key)
        (bucket,) = (stack.resolve(of["BucketEncryption"]) for _, of in resources(stack, "AWS::S3::Bucket"))
        (rule,) = bucket["ServerSideEncryptionConfiguration"]
        (table,) = (stack.resolve(of["SSESpecification"]) for _, of in resources(stack, "AWS::DynamoDB::Table"))
        (queue,) = resolved(stack, "AWS::SQS::Queue")
        logs = {group.get("KmsKeyId") for group in resolved(stack, "AWS::Logs::LogGroup")}
        usual = rule["ServerSideEncryptionByDefault"]
        if key:
            assert usual == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
            assert rule["BucketKeyEnabled"] is True
            assert table == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
            assert (queue["SqsManagedSseEnabled"], queue["KmsMasterKeyId"]) == (False, KEY)
            assert logs == {KEY}
        else:
            assert usual == {"SSEAlgorithm": "AES256"}
            assert table == {"SSEEnabled": False}
            assert (queue["SqsManagedSseEnabled"], "KmsMasterKeyId" in queue) == (True, False)
            assert logs == {None}


@pytest.mark.parametrize("name", ROLES)
def test_a_role_uses_the_key_through_services_alone(name: str) -> None:
    assert "UseTheKey" not in sids(scope("alpha"), name)
    (statement,) = (of for of in statements(scope("alpha", KmsKey=KEY), name) if of["Sid"] == "UseTheKey")
    assert statement["Resource"] == KEY
    through = [f"{service}.us-east-1.amazonaws.com" for service in ("s3", "dynamodb", "sqs")]
    assert statement["Condition"] == {"StringEquals": {"kms:ViaService": through}}


@pytest.mark.parametrize("name", ROLES)
def test_functions_are_in_vpc_with_lambda_made_interfaces(name: str) -> None:
    plain, stack = scope("alpha"), scope("alpha", Subnets="subnet-1,subnet-2", SecurityGroups="sg-1")
    configs = [stack.resolve(of.get("VpcConfig")) for _, of in resources(stack, "AWS::Lambda::Function")]
    assert configs == 4 * [{"SubnetIds": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}]
    assert {plain.resolve(of.get("VpcConfig")) for _, of in resources(plain, "AWS::Lambda::Function")} == {None}
    assert "AttachToTheVpc" not in sids(plain, name)
    policies = [read({"Version": "2012-10-17", "Statement": statements(stack, name)})]
    action = ServiceAction("ec2:CreateNetworkInterface", "*")
    inside = {"lambda:sourcefunctionarn": (f"arn:aws:lambda:us-east-1:123456789012:function:marless-alpha-{name}",)}
    assert judge(policies, action, {}).decision == "allow"
    assert judge(policies, action, inside).decision == "deny"


# ---- Storage ----


def test_bucket_is_closed_encrypted_and_expires_leftovers() -> None:
    (bucket,) = of_type("AWS::S3::Bucket").values()
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    assert bucket["OwnershipControls"]["Rules"] == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    assert "VersioningConfiguration" not in bucket
    rules = {rule["Id"]: rule for rule in bucket["LifecycleConfiguration"]["Rules"]}
    assert {rule["Status"] for rule in rules.values()} == {"Enabled"}
    assert rules["forgotten-trajectories"]["TagFilters"] == [{"Key": "marless-kind", "Value": "trajectory"}]
    assert rules["torn-uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 1}
    # Policies and learner state are a run's results: no lifecycle rule deletes them.
    expiring = [rule for rule in rules.values() if "ExpirationInDays" in rule]
    assert [rule["Id"] for rule in expiring] == ["forgotten-trajectories"]


def test_table_has_scope_and_item_keys_and_recovery() -> None:
    (table,) = of_type("AWS::DynamoDB::Table").values()
    assert [(key["AttributeName"], key["KeyType"]) for key in table["KeySchema"]] == [
        ("scope", "HASH"),
        ("item", "RANGE"),
    ]
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_dead_letters_are_kept_for_maximum_time() -> None:
    (queue,) = of_type("AWS::SQS::Queue").values()
    # API_SetQueueAttributes, MessageRetentionPeriod: at most 14 days.
    assert queue["MessageRetentionPeriod"] == 14 * 24 * 3600


def test_logs_are_separate_by_function_and_expire() -> None:
    logs = of_type("AWS::Logs::LogGroup")
    assert set(logs) == {f"{name}Logs" for name in ROLES}
    assert all(group["RetentionInDays"] == {"Ref": "LogRetention"} for group in logs.values())
    assert len({json.dumps(group["LogGroupName"]) for group in logs.values()}) == len(ROLES)


# ---- Monitoring ----


ALARMS = ("Errors", "FailedRuns", "GivenUpEvents", "WaitingEvents", "Concurrency", "MissingSweep", "BusyCoordinator")


def watched(alarm: dict[str, Any]) -> list[tuple[str, str, dict[str, str]]]:
    """The metrics that an alarm looks at: namespace, name, and dimensions with their logical names."""
    if "Metrics" not in alarm:
        return [(alarm["Namespace"], alarm["MetricName"], dimensions(alarm))]
    return [
        (of["MetricStat"]["Metric"]["Namespace"], of["MetricStat"]["Metric"]["MetricName"], dimensions(metric))
        for of in alarm["Metrics"]
        if "MetricStat" in of
        for metric in [of["MetricStat"]["Metric"]]
    ]


def dimensions(metric: dict[str, Any]) -> dict[str, str]:
    return {of["Name"]: logical(of["Value"]) for of in metric.get("Dimensions", [])}


def logical(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    [(_, name)] = value.items()
    return "<" + (".".join(name) if isinstance(name, list) else re.sub(r"[${}]", "", name)) + ">"


def test_alarms_watch_conditions_that_need_people() -> None:
    stack = scope("alpha", MonthlyBudget="20")
    alarms = dict(resources(stack, "AWS::CloudWatch::Alarm"))
    assert set(alarms) == {*ALARMS, "Spending"}
    assert stack.resolve(alarms["Spending"]["Threshold"]) == "20"
    every = [{"FunctionName": f"<{name}>"} for name in HANDLERS]
    # "Types of metrics for Lambda functions": of events that are dropped, a dead letter is sent before.
    letters = ("AWS/SQS", "NumberOfMessagesSent", {"QueueName": "<DeadLetters.QueueName>"})
    dropped = [("AWS/Lambda", "AsyncEventsDropped", of) for of in every]
    assert watched(alarms["Errors"]) == [("AWS/Lambda", "Errors", of) for of in every]
    assert watched(alarms["GivenUpEvents"]) == [letters, *dropped]
    assert watched(alarms["WaitingEvents"]) == [("AWS/Lambda", "AsyncEventAge", of) for of in every]
    assert watched(alarms["Concurrency"]) == [("AWS/Lambda", "ConcurrentExecutions", {})]
    # CloudWatch user guide, "Visualizing your service quotas and setting alarms".
    assert alarms["Concurrency"]["Metrics"][0]["Expression"] == "100 * used / SERVICE_QUOTA(used)"
    assert watched(alarms["BusyCoordinator"]) == [("AWS/Lambda", "Invocations", {"FunctionName": "<Coordinator>"})]
    # The alias that the schedule calls, and runs do not.
    alias = {"FunctionName": "<Coordinator>", "Resource": "<Coordinator:live>"}
    assert watched(alarms["MissingSweep"]) == [("AWS/Lambda", "Invocations", alias)]


def test_alarms_clear_automatically_and_sweep_must_be_present() -> None:
    alarms = of_type("AWS::CloudWatch::Alarm")
    # A sum over a period ends with it. The number of messages in a queue stays for days.
    assert all(name != "ApproximateNumberOfMessagesVisible" for of in alarms.values() for _, name, _ in watched(of))
    missing = {name: alarm["TreatMissingData"] for name, alarm in alarms.items()}
    assert missing.pop("MissingSweep") == "breaching"
    assert set(missing.values()) == {"notBreaching"}


def test_events_are_reported_at_half_their_age_limit() -> None:
    stack = scope("alpha", EventAge="600")
    waiting = dict(resources(stack, "AWS::CloudWatch::Alarm"))["WaitingEvents"]
    # AsyncEventAge is in milliseconds: 300 s of 600 s are 50 %.
    assert stack.resolve(waiting["Metrics"][0]["Expression"]) == "100 * MAX(METRICS()) / (1000 * 600)"
    assert waiting["Threshold"] == 50


def test_idle_month_names_every_billed_alarm_metric() -> None:
    from marless.cloud.deploy_messages import standing_of

    billed = sum(len(watched(alarm)) for alarm in of_type("AWS::CloudWatch::Alarm").values())
    assert standing_of({}).alarm_metrics == billed == 4 + 1 + 5 + 4 + 1 + 1 + 1 + 1


@pytest.mark.parametrize(
    ("email", "dollars", "made"), [("me@example.org", "20", True), ("", "20", False), ("me@example.org", "0", False)]
)
def test_budget_watches_bill_of_stack_tag(email: str, dollars: str, made: bool) -> None:
    stack = scope("alpha", AlarmEmail=email, MonthlyBudget=dollars)
    found = resources(stack, "AWS::Budgets::Budget")
    assert len(found) == made
    for _, properties in found:
        wanted = stack.resolve(properties)
        assert wanted["Budget"]["BudgetLimit"] == {"Amount": dollars, "Unit": "USD"}
        # AWS Cost Management user guide, "Filtering by tags": user:KEY$VALUE. The key is the key of `Stacks.put`.
        assert wanted["Budget"]["CostFilters"] == {"TagKeyValue": ["user:marless:tenant$alpha"]}
        notified = wanted["NotificationsWithSubscribers"]
        assert {of["Notification"]["NotificationType"] for of in notified} == {"ACTUAL", "FORECASTED"}
        assert {of["Subscribers"][0]["Address"] for of in notified} == {email}


def test_a_days_spending_is_taken_for_a_months() -> None:
    spending = of_type("AWS::CloudWatch::Alarm")["Spending"]["Metrics"]
    month = next(metric for metric in spending if "Expression" in metric)
    (spend,) = [metric for metric in spending if "MetricStat" in metric]
    # PutMetricAlarm: a period is at most a day.
    assert (month["Expression"], spend["MetricStat"]["Period"]) == (f"{spend['Id']} * 30", 86_400)
    assert (spend["MetricStat"]["Stat"], spend["ReturnData"]) == ("Sum", False)


@pytest.mark.parametrize("name", ["Spend", "FailedRuns"])
def test_alarm_uses_names_emitted_by_coordinator(name: str, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    from aws_lambda_powertools import Metrics
    from aws_lambda_powertools.metrics import MetricUnit

    stack = scope("alpha")
    variables = dict(resources(stack, "AWS::Lambda::Function"))["Coordinator"]["Environment"]["Variables"]
    for variable in ("POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_NAMESPACE"):
        shell.export(**{variable: variables[variable]})
    metrics = Metrics()
    metrics.set_default_dimensions(Tenant="alpha")
    metrics.add_metric(name=name, unit=MetricUnit.NoUnit, value=0.5)
    metrics.flush_metrics()
    document = json.loads(capsys.readouterr().out)
    (declared,) = document["_aws"]["CloudWatchMetrics"]
    alarms = dict(resources(stack, "AWS::CloudWatch::Alarm"))
    spend = alarms["Spending"]["Metrics"][1]["MetricStat"]["Metric"]
    metric = spend if name == "Spend" else alarms[name]
    assert (metric["Namespace"], metric["MetricName"]) == (declared["Namespace"], declared["Metrics"][0]["Name"])
    dimensions_of_alarm = {of["Name"]: stack.resolve(of["Value"]) for of in metric["Dimensions"]}
    assert [set(dimensions_of_alarm)] == [set(dimensions) for dimensions in declared["Dimensions"]]
    assert dimensions_of_alarm == {name: document[name] for name in dimensions_of_alarm}


@pytest.mark.parametrize(("email", "mailed"), [("", False), ("me@example.org", True)])
def test_alarms_are_mailed_when_raised_and_cleared(email: str, mailed: bool) -> None:
    stack = scope("alpha", AlarmEmail=email)
    assert len(resources(stack, "AWS::SNS::Topic")) == mailed
    for _, alarm in resources(stack, "AWS::CloudWatch::Alarm"):
        for actions in (alarm["AlarmActions"], alarm["OKActions"]):
            (choice,) = actions.values()
            assert choice[1] == [{"Ref": "AlarmTopic"}]
            assert stack.holds(choice[0]) is mailed


def widgets() -> list[dict[str, Any]]:
    (dashboard,) = of_type("AWS::CloudWatch::Dashboard").values()
    text = re.sub(r": \$\{(\w+)\}", r": 1", dashboard["DashboardBody"]["Fn::Sub"])  # numbers
    return json.loads(re.sub(r"\$\{([\w.:]+)\}", r"<\1>", text))["widgets"]


def shown() -> list[list[Any]]:
    found: list[list[Any]] = []
    for widget in widgets():
        for metric in widget["properties"].get("metrics", []):
            names = [of for of in metric if isinstance(of, str)]
            if names[:1] == ["..."]:  # all values except the last repeat the metric before
                names = [*found[-1][: -len(names[1:])], *names[1:]]
            found += [names] if names else []
    return found


def test_the_dashboard_shows_every_metric_of_every_alarm() -> None:
    metrics = shown()
    for name, alarm in of_type("AWS::CloudWatch::Alarm").items():
        for namespace, metric, of in watched(alarm):
            wanted = [namespace, metric, *(part for pair in of.items() for part in pair)]
            assert [part.replace(":live>", ">:live") if ":live" in part else part for part in wanted] in metrics, name
    (states,) = [widget for widget in widgets() if widget["type"] == "alarm"]
    assert states["properties"]["alarms"] == [f"<{name}.Arn>" for name in (*ALARMS, "Spending")]


def test_the_dashboard_shows_every_function() -> None:
    metrics = shown()
    for metric in ("Invocations", "Errors", "Throttles", "Duration", "AsyncEventAge", "DeadLetterErrors"):
        of_functions = [of[3] for of in metrics if of[:2] == ["AWS/Lambda", metric] and len(of) == 4]
        assert of_functions[: len(HANDLERS)] == [f"<{name}>" for name in HANDLERS], metric
    assert {of[1] for of in metrics if of[0] == "MARLess"} == {"Spend", "Rounds", "Failures", "FailedRuns"}


def test_dashboard_widgets_stay_on_page_without_overlap() -> None:
    taken = [
        (column, row)
        for of in widgets()
        for column in range(of["x"], of["x"] + of["width"])
        for row in range(of["y"], of["y"] + of["height"])
    ]
    assert len(set(taken)) == len(taken)
    # 24 columns (CloudWatch API, "Dashboard body structure and syntax").
    assert max(column for column, _ in taken) < 24
