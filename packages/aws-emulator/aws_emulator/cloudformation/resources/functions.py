"""Lambda functions, versions, aliases and triggers: moto describes them, our Lambda service runs them."""

import io
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from aws_emulator.cloudformation.resources.kind import (
    Clients,
    PhysicalResource,
    Properties,
    changed_properties,
    delete_on_failure,
)
from aws_emulator.encoding import to_json
from aws_emulator.lambda_service.lambdas import Lambdas
from aws_emulator.lambda_service.schedules import Schedule, Schedules
from aws_emulator.lambda_service.versions import LIVE, FunctionVersion

_UNITS_S = {"minute": 60.0, "hour": 3600.0, "day": 86_400.0}
# The defaults (API_PutFunctionEventInvokeConfig).
_MAX_RETRIES, _MAX_EVENT_AGE_S = 2, 21_600.0
# Function-level settings (API_PutFunctionConcurrency, API_PutFunctionRecursionConfig, API_TagResource).
_BESIDE_VERSIONS = ("ReservedConcurrentExecutions", "RecursiveLoop", "Tags")


class Functions:
    """The settings of the stacks' functions by name, and their published versions.

    Functions always run the code in the folders `code` on this machine. The template's code location is ignored.
    `memory_mb` is the account's quota of a function's memory.
    """

    def __init__(self, lambdas: Lambdas, code: tuple[Path, ...], memory_mb: int = 10_240) -> None:
        self._lambdas, self._code, self._most_mb = lambdas, code, memory_mb
        self._settings: dict[str, Properties] = {}
        self._published: dict[str, tuple[str, Properties]] = {}
        self._asynchronous: dict[tuple[str, str], Properties] = {}
        self._live: dict[str, FunctionVersion] = {}
        self._versions: dict[tuple[str, str], FunctionVersion] = {}

    def set(self, name: str, settings: Properties) -> None:
        """Sets the function's settings. Its next version will have them."""
        self._settings[name] = settings
        self._announce(name)

    def require_memory(self, settings: Properties) -> None:
        """Raises `ValueError`, with Lambda's message, for more memory than the account's functions may have."""
        if int(settings.get("MemorySize", 128)) > self._most_mb:
            raise ValueError(
                "'MemorySize' value failed to satisfy constraint: "
                f"Member must have value less than or equal to {self._most_mb}"
            )

    def reserve(self, name: str, concurrency: int | None) -> None:
        """Sets or removes the function's reserved concurrency. Raises `ValueError` if Lambda would refuse it."""
        self._lambdas.reserve(name, concurrency)

    def publish(self, name: str, version: str) -> None:
        """Publishes a version with the current settings. Raises `ValueError` if Lambda would refuse it."""
        self._published[name] = version, frozen(self._settings[name])
        function_version = _version(name, version, self._settings[name], self._code)
        self._versions[name, version] = function_version
        self._lambdas.publish(self._beside(function_version))

    def has_versions(self, name: str) -> bool:
        """Return whether a version of the function was ever published."""
        return name in self._published

    def equal(self, name: str) -> str | None:
        """The last published version if the function has not changed since, else None."""
        version, settings = self._published.get(name, (None, {}))
        return version if settings == frozen(self._settings[name]) else None

    def point(self, name: str, version: str) -> None:
        """Points the alias `live` at the version."""
        self._live[name] = self._versions[name, version]
        self._announce(name)

    def invoke_asynchronously(self, name: str, qualifier: str, settings: Properties) -> None:
        """Sets the properties of AWS::Lambda::EventInvokeConfig: retries and age of asynchronous events."""
        self._asynchronous[name, qualifier] = settings
        self._announce(name)

    def restore_defaults(self, name: str, qualifier: str) -> None:
        """Drops the settings of asynchronous events. The function may be gone."""
        self._asynchronous.pop((name, qualifier), None)
        self._announce(name)

    def remove(self, name: str) -> None:
        """Removes the function."""
        self._settings.pop(name, None)
        self._published.pop(name, None)
        self._live.pop(name, None)
        self._asynchronous = {key: value for key, value in self._asynchronous.items() if key[0] != name}
        self._versions = {key: value for key, value in self._versions.items() if key[0] != name}
        self._lambdas.remove(name)

    def _announce(self, name: str) -> None:
        if name in self._live:
            self._lambdas.publish(self._beside(self._live[name]))

    def _beside(self, version: FunctionVersion) -> FunctionVersion:
        """The version with the function's settings, and its event settings or else the alias `live`'s."""
        settings = self._settings[version.name]
        candidates = (self._asynchronous.get((version.name, qualifier)) for qualifier in (version.version, LIVE))
        events: Properties = next(filter(None, candidates), {})
        return replace(
            version,
            recursion_allowed=settings.get("RecursiveLoop") == "Allow",
            max_retries=int(events.get("MaximumRetryAttempts", _MAX_RETRIES)),
            max_event_age_s=float(events.get("MaximumEventAgeInSeconds", _MAX_EVENT_AGE_S)),
        )


def frozen(settings: Properties) -> Properties:
    """The properties that a version freezes (Lambda developer guide, "Manage Lambda function versions")."""
    return {name: value for name, value in settings.items() if name not in _BESIDE_VERSIONS}


def _version(name: str, version: str, settings: Properties, code: tuple[Path, ...]) -> FunctionVersion:
    return FunctionVersion(
        name=name,
        version=version,
        handler=_handler(settings),
        code=code,
        memory_mb=int(settings.get("MemorySize", 128)),
        timeout_s=float(settings.get("Timeout", 3)),
        environment=_variables(settings),
        role_arn=settings["Role"],
        log_group=settings.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{name}"),
        dead_letter_arn=settings.get("DeadLetterConfig", {}).get("TargetArn"),
    )


def _handler(settings: Properties) -> str:
    """The handler: the property `Handler`, or for an image its command."""
    return str(settings.get("Handler") or settings["ImageConfig"]["Command"][0])


def _variables(settings: Properties) -> dict[str, str]:
    return {key: str(value) for key, value in settings.get("Environment", {}).get("Variables", {}).items()}


class Function:
    """AWS::Lambda::Function."""

    create_only = frozenset({"FunctionName", "PackageType"})

    def __init__(self, clients: Clients, functions: Functions) -> None:
        self._clients, self._functions = clients, functions

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        self._functions.require_memory(properties)
        client, name = self._clients("lambda"), properties.get("FunctionName", name)
        code = self._code(properties)
        answer = client.create_function(FunctionName=name, Code=code, **_package(code), **_configuration(properties))
        with delete_on_failure(self, PhysicalResource(name, {"Arn": answer["FunctionArn"]}), properties) as physical:
            self._reserve(name, properties)
            self._functions.set(name, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        self._functions.require_memory(after)
        if before.get("Code") != after.get("Code"):
            self._clients("lambda").update_function_code(FunctionName=physical.id, **self._code(after))
        if _configuration(before) != _configuration(after):
            self._clients("lambda").update_function_configuration(FunctionName=physical.id, **_configuration(after))
        if "ReservedConcurrentExecutions" in changed_properties(before, after):
            self._reserve(physical.id, after)
        self._functions.set(physical.id, after)

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        self._functions.remove(physical.id)
        with suppress(self._clients("lambda").exceptions.ResourceNotFoundException):
            self._clients("lambda").delete_function(FunctionName=physical.id)

    def _code(self, properties: Properties) -> dict[str, Any]:
        """The package for moto, which describes it. A program that runs from its folders may have none."""
        code = properties.get("Code", {})
        if "ImageUri" in code:
            return {"ImageUri": code["ImageUri"]}
        try:
            self._clients("s3").head_object(Bucket=code["S3Bucket"], Key=code["S3Key"])
        except (ClientError, KeyError):
            return {"ZipFile": _PLACEHOLDER}
        return {"S3Bucket": code["S3Bucket"], "S3Key": code["S3Key"]}

    def _reserve(self, name: str, properties: Properties) -> None:
        client, concurrency = self._clients("lambda"), properties.get("ReservedConcurrentExecutions")
        self._functions.reserve(name, None if concurrency is None else int(concurrency))
        if concurrency is not None:
            client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=int(concurrency))
        elif "ReservedConcurrentExecutions" in client.get_function_concurrency(FunctionName=name):
            client.delete_function_concurrency(FunctionName=name)


def _package(code: Mapping[str, Any]) -> dict[str, str]:
    return {"PackageType": "Image"} if "ImageUri" in code else {}


def _configuration(properties: Properties) -> dict[str, Any]:
    """The function's configuration for moto, which describes functions but does not run them."""
    return {
        "Role": properties["Role"],
        "Handler": _handler(properties),
        "Runtime": properties.get("Runtime", "python3.12"),
        "MemorySize": int(properties.get("MemorySize", 128)),
        "Timeout": int(properties.get("Timeout", 3)),
        "Environment": {"Variables": _variables(properties)},
    }


def _placeholder() -> bytes:
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("README", "The emulated account runs the program from its folders.\n")
    return package.getvalue()


_PLACEHOLDER = _placeholder()


class Version:
    """AWS::Lambda::Version: the function's current settings."""

    create_only = frozenset({"FunctionName"})

    def __init__(self, clients: Clients, functions: Functions) -> None:
        self._clients, self._functions = clients, functions

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        """See `Kind`."""
        function, client = properties["FunctionName"], self._clients("lambda")
        equal = self._functions.equal(function)
        pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
        if equal is not None and equal in pages.search("Versions[].Version"):
            # Lambda returns the existing version. CloudFormation fails with this message.
            raise ValueError(
                f"A version for this Lambda function exists ( {equal} ). Modify the function to create a new version."
            )
        if self._functions.has_versions(function):  # moto keeps fewer settings and may otherwise see no change
            client.update_function_configuration(FunctionName=function)
        answer = client.publish_version(FunctionName=function)
        self._functions.publish(function, answer["Version"])
        return PhysicalResource(answer["FunctionArn"], {"Version": answer["Version"]})

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        """A published version does not change."""

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        """Versions are deleted with their function, not before: runs may be pinned to them."""


class Alias:
    """AWS::Lambda::Alias. Only the alias `live` is supported."""

    create_only = frozenset({"FunctionName", "Name"})

    def __init__(self, clients: Clients, functions: Functions) -> None:
        self._clients, self._functions = clients, functions

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        if properties["Name"] != LIVE:
            raise ValueError(f"the emulated account knows one alias, {LIVE}")
        answer = self._clients("lambda").create_alias(**properties)
        self._functions.point(properties["FunctionName"], properties["FunctionVersion"])
        return PhysicalResource(answer["AliasArn"])

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        self._clients("lambda").update_alias(**after)
        self._functions.point(after["FunctionName"], after["FunctionVersion"])

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        with suppress(self._clients("lambda").exceptions.ResourceNotFoundException):
            self._clients("lambda").delete_alias(FunctionName=properties["FunctionName"], Name=properties["Name"])


class EventInvokeConfig:
    """AWS::Lambda::EventInvokeConfig."""

    create_only = frozenset({"FunctionName", "Qualifier"})

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        physical = PhysicalResource(f"{properties['FunctionName']}|{properties['Qualifier']}")
        self.update(physical, {}, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        self._functions.invoke_asynchronously(after["FunctionName"], after["Qualifier"], after)

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        """API_DeleteFunctionEventInvokeConfig: Lambda's defaults hold again."""
        self._functions.restore_defaults(properties["FunctionName"], properties["Qualifier"])


class Permission:
    """AWS::Lambda::Permission: allows a service to invoke a function."""

    create_only = frozenset({"Action", "FunctionName", "Principal", "SourceArn"})

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        arguments = {key: properties[key] for key in self.create_only if key in properties}
        self._clients("lambda").add_permission(
            StatementId=name[-100:], **{**arguments, **_split(properties["FunctionName"])}
        )
        return PhysicalResource(name[-100:])

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        """Never called: every change replaces the permission."""

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        client, function = self._clients("lambda"), _split(properties["FunctionName"])
        with suppress(client.exceptions.ResourceNotFoundException):
            client.remove_permission(StatementId=physical.id, **function)


def _split(name: str) -> dict[str, str]:
    """Splits an ARN into the function's name and qualifier for moto's API."""
    parts = name.split(":")
    if len(parts) < 7:
        return {"FunctionName": name}
    return {"FunctionName": parts[6], **({"Qualifier": parts[7]} if len(parts) > 7 else {})}


class Rule:
    """AWS::Events::Rule with a rate and functions as its targets."""

    create_only = frozenset[str]()

    def __init__(self, clients: Clients, schedules: Schedules) -> None:
        self._clients, self._schedules = clients, schedules

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        with delete_on_failure(self, PhysicalResource(name), properties):
            return PhysicalResource(name, {"Arn": self._put(name, properties)})

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        self._forget(physical.id, before)
        self._put(physical.id, after)

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        client = self._clients("events")
        with suppress(client.exceptions.ResourceNotFoundException):
            self._forget(physical.id, properties)
            client.delete_rule(Name=physical.id)

    def _put(self, name: str, properties: Properties) -> str:
        client, targets = self._clients("events"), properties.get("Targets", [])
        period_s = rate(properties["ScheduleExpression"])
        settings = {key: properties[key] for key in ("ScheduleExpression", "Description") if key in properties}
        arn = client.put_rule(Name=name, **settings)["RuleArn"]
        if targets:
            entries = [{key: target[key] for key in ("Id", "Arn", "Input") if key in target} for target in targets]
            client.put_targets(Rule=name, Targets=entries)
        for target in targets:
            self._schedules.put(f"{name}/{target['Id']}", _schedule(target, period_s))
        return str(arn)

    def _forget(self, name: str, properties: Properties) -> None:
        targets = [target["Id"] for target in properties.get("Targets", [])]
        for target in targets:
            self._schedules.remove(f"{name}/{target}")
        if targets:
            self._clients("events").remove_targets(Rule=name, Ids=targets)


def _schedule(target: Mapping[str, Any], period_s: float) -> Schedule:
    event = target.get("Input") or to_json({"source": "aws.events"}).decode()
    return Schedule(function=target["Arn"], qualifier=None, payload=event.encode(), period_s=period_s)


def rate(expression: str) -> float:
    """Period in seconds of ``rate(5 minutes)`` (EventBridge user guide, "Rate expressions"). Raises `ValueError`."""
    inside = expression.removeprefix("rate(").removesuffix(")").split()
    if len(inside) != 2 or not inside[0].isdigit() or inside[1].removesuffix("s") not in _UNITS_S:
        raise ValueError(f"the emulated account knows schedules like rate(5 minutes), not {expression}")
    return int(inside[0]) * _UNITS_S[inside[1].removesuffix("s")]
