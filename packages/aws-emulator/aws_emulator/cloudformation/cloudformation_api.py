"""CloudFormation's API: WSGI middleware that answers its calls from `Stacks` and forwards all other requests.

Requests and answers follow the service's query API (CloudFormation API reference).
"""

import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from xml.sax.saxutils import escape

from aws_emulator.cloudformation.change_sets import Change
from aws_emulator.cloudformation.sam_translation import TranslationFailed, has_transform, translate
from aws_emulator.cloudformation.stack import Event, Judge, Stack, anything
from aws_emulator.cloudformation.stacks import Invalid, Stacks
from aws_emulator.iam.authorization import JUDGE
from aws_emulator.wsgi import App, Environ, Start, body, reply, service

_NAMESPACE = "http://cloudformation.amazonaws.com/doc/2010-05-15/"
# API_CreateStack, TemplateBody and TemplateURL.
LONGEST_TEMPLATE, LONGEST_FILE = 51_200, 1_000_000

Fields = Mapping[str, str]


class CloudFormation:
    """Answers CloudFormation's requests from `stacks`. `app` gets all other requests.

    `fetch` returns the object of a bucket's key, for templates that a request only points at.
    """

    def __init__(self, app: App, stacks: Stacks, region: str, fetch: Callable[[str, str], bytes]) -> None:
        self._app, self._stacks, self._region, self._fetch = app, stacks, region, fetch
        self._calls: dict[str, Callable[[Fields, Judge], Any]] = {
            "CreateStack": self._create,
            "UpdateStack": self._update,
            "DeleteStack": self._delete,
            "UpdateTerminationProtection": self._protect,
            "CreateChangeSet": self._propose,
            "DescribeChangeSet": self._describe_change_set,
            "ExecuteChangeSet": self._execute,
            "DeleteChangeSet": self._withdraw,
            "DescribeStacks": self._describe,
            "DescribeStackEvents": self._events,
            "ListStacks": self._list,
            "ListStackResources": self._resources,
        }

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        if service(environ) != "cloudformation":
            return self._app(environ, start)
        fields = dict(parse_qsl(body(environ).decode(), keep_blank_values=True))
        action = fields.get("Action", "")
        judge: Judge = environ.get(JUDGE, anything)
        try:
            if action not in self._calls:
                raise Invalid(f"the emulated account does not know {action}")
            result = self._calls[action](fields, judge)
        except (Invalid, TranslationFailed, InvalidParameters) as error:
            wrong = {"Type": "Sender", "Code": getattr(error, "code", Invalid.code), "Message": str(error)}
            text = _document("ErrorResponse", {"Error": wrong, "RequestId": str(uuid.uuid4())})
            return reply(start, "400 Bad Request", text, "text/xml")
        text = _document(f"{action}Response", {f"{action}Result": result})
        return reply(start, "200 OK", text, "text/xml")

    def _create(self, fields: Fields, judge: Judge) -> Any:
        protection = _true(fields, "EnableTerminationProtection")
        template, parameters = self._template_and_parameters(fields)
        stack = self._stacks.create(
            fields["StackName"],
            template,
            parameters,
            tags=_tags(fields),
            termination_protection=protection,
            judge=judge,
        )
        return {"StackId": stack.id}

    def _update(self, fields: Fields, judge: Judge) -> Any:
        uses_transform, tags = has_transform(self._text(fields)), _tags(fields)
        template, parameters = self._template_and_parameters(fields)
        stack = self._stacks.update(
            fields["StackName"], template, parameters, tags=tags, uses_transform=uses_transform, judge=judge
        )
        return {"StackId": stack.id}

    def _protect(self, fields: Fields, judge: Judge) -> Any:
        stack = self._stacks.find(fields["StackName"])
        stack.termination_protection = _true(fields, "EnableTerminationProtection")
        return {"StackId": stack.id}

    def _propose(self, fields: Fields, judge: Judge) -> Any:
        change_set = self._stacks.propose(
            fields["StackName"], fields["ChangeSetName"], *self._template_and_parameters(fields), tags=_tags(fields)
        )
        return {"Id": change_set.id, "StackId": change_set.stack.id}

    def _describe_change_set(self, fields: Fields, judge: Judge) -> Any:
        change_set = self._stacks.find_change_set(fields["ChangeSetName"], fields.get("StackName", ""))
        return {
            "ChangeSetId": change_set.id,
            "ChangeSetName": change_set.name,
            "StackId": change_set.stack.id,
            "StackName": change_set.stack.name,
            "Status": change_set.status,
            "StatusReason": change_set.reason or None,
            "Changes": [_change(change) for change in change_set.changes],
        }

    def _execute(self, fields: Fields, judge: Judge) -> Any:
        self._stacks.execute(self._stacks.find_change_set(fields["ChangeSetName"], fields.get("StackName", "")), judge)
        return {}

    def _withdraw(self, fields: Fields, judge: Judge) -> Any:
        self._stacks.withdraw(self._stacks.find_change_set(fields["ChangeSetName"], fields.get("StackName", "")))
        return {}

    def _template_and_parameters(self, fields: Fields) -> tuple[dict[str, Any], dict[str, str]]:
        text, parameters = self._text(fields), _parameters(fields)
        if "CAPABILITY_AUTO_EXPAND" not in fields.values():
            raise Invalid("Requires capabilities : [CAPABILITY_AUTO_EXPAND]")
        template = translate(text, parameters, self._region)
        return template, values(template.get("Parameters", {}), parameters)

    def _text(self, fields: Fields) -> str:
        """The template. Raises `Invalid` where it is too long."""
        if url := fields.get("TemplateURL"):
            bucket, _, key = urlsplit(url).path.lstrip("/").partition("/")
            text = self._fetch(bucket, key).decode()
            if len(text.encode()) > LONGEST_FILE:
                raise Invalid(f"Template may not exceed {LONGEST_FILE} bytes in size.")
            return text
        text = fields["TemplateBody"]
        if len(text.encode()) > LONGEST_TEMPLATE:
            raise Invalid(
                "1 validation error detected: Value at 'templateBody' failed to satisfy constraint: "
                f"Member must have length less than or equal to {LONGEST_TEMPLATE}"
            )
        return text

    def _delete(self, fields: Fields, judge: Judge) -> Any:
        self._stacks.delete(fields["StackName"], judge)
        return {}

    def _describe(self, fields: Fields, judge: Judge) -> Any:
        name = fields.get("StackName")
        stacks = [self._stacks.find(name)] if name else [stack for stack in self._stacks.all() if not stack.is_deleted]
        return {"Stacks": [_description(stack) for stack in stacks]}

    def _events(self, fields: Fields, judge: Judge) -> Any:
        stack = self._stacks.find(fields["StackName"])
        return {"StackEvents": [_event(stack, event) for event in reversed(stack.events)]}

    def _list(self, fields: Fields, judge: Judge) -> Any:
        statuses = {value for name, value in fields.items() if name.startswith("StackStatusFilter.")}
        stacks = [stack for stack in reversed(self._stacks.all()) if not statuses or stack.status in statuses]
        return {"StackSummaries": [_summary(stack) for stack in stacks]}

    def _resources(self, fields: Fields, judge: Judge) -> Any:
        stack = self._stacks.find(fields["StackName"])
        # The last event of each resource has its status, even after a deletion.
        last = {event.logical: event for event in stack.events if event.logical != stack.name}
        return {
            "StackResourceSummaries": [
                {
                    "LogicalResourceId": event.logical,
                    "PhysicalResourceId": event.physical,
                    "ResourceType": event.type,
                    "ResourceStatus": event.status,
                    "LastUpdatedTimestamp": event.at,
                }
                for event in last.values()
            ]
        }


def _parameters(fields: Fields) -> dict[str, str]:
    key, value = "Parameters.member.{}.ParameterKey", "Parameters.member.{}.ParameterValue"
    numbers = [name.split(".")[2] for name in fields if name.endswith(".ParameterKey")]
    return {fields[key.format(number)]: fields[value.format(number)] for number in numbers}


def _tags(fields: Fields) -> dict[str, str] | None:
    """The tags of a request, or None."""
    numbers = [name.split(".")[2] for name in fields if name.startswith("Tags.member.") and name.endswith(".Key")]
    key, value = "Tags.member.{}.Key", "Tags.member.{}.Value"
    return {fields[key.format(number)]: fields[value.format(number)] for number in numbers} or None


def _true(fields: Fields, name: str) -> bool:
    return fields.get(name) == "true"


def _change(change: Change) -> dict[str, Any]:
    return {
        "Type": "Resource",
        "ResourceChange": {
            "Action": change.action,
            "LogicalResourceId": change.logical,
            "PhysicalResourceId": change.physical or None,
            "ResourceType": change.type,
            "Replacement": change.replacement or None,
        },
    }


def _summary(stack: Stack) -> dict[str, Any]:
    return {
        "StackId": stack.id,
        "StackName": stack.name,
        "CreationTime": stack.creation_time,
        "StackStatus": stack.status,
        "StackStatusReason": stack.reason or None,
    }


def _description(stack: Stack) -> dict[str, Any]:
    parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in stack.parameters.items()]
    outputs = [{"OutputKey": key, "OutputValue": value} for key, value in stack.outputs.items()]
    return {
        **_summary(stack),
        "Parameters": parameters,
        "Outputs": outputs,
        "Tags": [{"Key": key, "Value": value} for key, value in stack.tags.items()],
        "EnableTerminationProtection": str(stack.termination_protection).lower(),
    }


def _event(stack: Stack, event: Event) -> dict[str, Any]:
    return {
        "StackId": stack.id,
        "StackName": stack.name,
        "EventId": event.id,
        "LogicalResourceId": event.logical,
        "PhysicalResourceId": event.physical,
        "ResourceType": event.type,
        "Timestamp": event.at,
        "ResourceStatus": event.status,
        "ResourceStatusReason": event.reason or None,
    }


def _document(name: str, value: Any) -> bytes:
    return f'<{name} xmlns="{_NAMESPACE}">{"".join(_xml(value))}</{name}>'.encode()


def _xml(value: Any) -> Iterable[str]:
    """The XML of a response in the query protocol: list items are `member` elements, None values are omitted."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if item is not None:
                yield f"<{name}>{''.join(_xml(item))}</{name}>"
    elif isinstance(value, list):
        for item in value:
            yield f"<member>{''.join(_xml(item))}</member>"
    else:
        yield escape(value.isoformat() if isinstance(value, datetime) else str(value))


class InvalidParameters(Exception):
    """Parameters are missing, unknown or not allowed. The message is CloudFormation's."""


def values(declarations: Mapping[str, Mapping[str, Any]], arguments: Mapping[str, str]) -> dict[str, str]:
    """Every parameter's value or default as text. Raises `InvalidParameters`."""
    if strange := sorted(arguments.keys() - declarations.keys()):
        raise InvalidParameters(f"Parameters: [{', '.join(strange)}] do not exist in the template")
    value_by_name = {name: str(of["Default"]) for name, of in declarations.items() if "Default" in of} | dict(arguments)
    if missing := sorted(declarations.keys() - value_by_name.keys()):
        raise InvalidParameters(f"Parameters: [{', '.join(missing)}] must have values")
    for name, value in value_by_name.items():
        if complaint := _complaint(declarations[name], value):
            raise InvalidParameters(f"Parameter '{name}' {complaint}")
    return value_by_name


def _complaint(of: Mapping[str, Any], value: str) -> str:
    """The constraint that a value violates, or ''."""
    if "AllowedValues" in of and value not in map(str, of["AllowedValues"]):
        return f"must be one of AllowedValues: [{', '.join(map(str, of['AllowedValues']))}]"
    if "AllowedPattern" in of and not re.fullmatch(of["AllowedPattern"], value):
        return f"failed to satisfy constraint: {of.get('ConstraintDescription', of['AllowedPattern'])}"
    if of["Type"] != "Number":
        return ""
    try:
        number = float(value)
    except ValueError:
        return "must be a number"
    if "MinValue" in of and number < float(of["MinValue"]):
        return f"must be a number not less than {of['MinValue']}"
    if "MaxValue" in of and number > float(of["MaxValue"]):
        return f"must be a number not greater than {of['MaxValue']}"
    return ""
