"""The description of the API for programs: OpenAPI 3.1, made from the operations and the types of their answers."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from marless.coordinator.config.loading import SHORT_FORMS
from marless.coordinator.config.schema import RunConfig
from marless_server.web import problems
from marless_server.web.answers import ProblemDetails

JSON, TOML, TEXT, GZIP = "application/json", "application/toml", "text/plain", "application/gzip"
_REFERENCE = "#/components/schemas/{name}"
# Any request may get these: a header that is there twice, no token, another site, another host, too many requests, a
# full disk.
_COMMON = (400, 401, 403, 421, 429, 503)
_BODY = (408, 413, 422)
_PLACE = re.compile(r"{(\w+)}")

Parameter = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """A verb of the API.

    Attributes:
        summary: its purpose, as a sentence
        answers: by status, the type of the answer, or the media type of a file
        problems: statuses of refusals, without the statuses that any request may get
        body: the type of the request's body, if it has one
        parameters: of the query and the headers
    """

    method: str
    path: str
    endpoint: Callable[[Request], Response | Awaitable[Response]]
    summary: str
    answers: Mapping[int, type[msgspec.Struct] | str]
    problems: Sequence[int] = ()
    body: type[msgspec.Struct] | None = None
    parameters: Sequence[Parameter] = ()


def parameter(name: str, description: str, schema: Mapping[str, Any], place: str = "query") -> Parameter:
    """Return the description of a parameter that may be left out."""
    return {"name": name, "in": place, "description": description, "schema": schema}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the description of the operations."""
    kinds: list[Any] = [ProblemDetails]
    for operation in operations:
        kinds += [kind for kind in (*operation.answers.values(), operation.body) if isinstance(kind, type)]
    _, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    if RunConfig.__name__ in components:
        _add_short_forms(components[RunConfig.__name__])
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "A server of MARLess", "version": "v1"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _described(operation: Operation) -> dict[str, Any]:
    refusals = {*_COMMON, *operation.problems, *(_BODY if operation.body else ())}
    places = [
        {**parameter(name, f"The id of the {name}.", {"type": "string"}, "path"), "required": True}
        for name in _PLACE.findall(operation.path)
    ]
    answers = {status: _content(kind) for status, kind in operation.answers.items()}
    answers |= dict.fromkeys(sorted(refusals | ({404} if places else set())), _content(ProblemDetails, problems.TYPE))
    described: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": [*places, *operation.parameters],
        "responses": {
            str(status): {"description": HTTPStatus(status).phrase, "content": content}
            for status, content in answers.items()
        },
    }
    if operation.body:
        takes_toml = 415 in operation.problems
        content = {**_content(operation.body), **(_content(TOML) if takes_toml else {})}
        described["requestBody"] = {"required": takes_toml, "content": content}
    return described


def _content(kind: type | str, media_type: str = JSON) -> dict[str, Any]:
    if isinstance(kind, str):
        return {kind: {"schema": {"type": "string"}}}
    return {media_type: {"schema": {"$ref": _REFERENCE.format(name=kind.__name__)}}}


def _add_short_forms(schema: dict[str, Any]) -> None:
    """Add the keys that may be given without their table, such as ``task = "mpe/simple_spread"``."""
    properties = schema["properties"]
    for short, key in SHORT_FORMS.items():
        form = {"type": "integer" if key.startswith("stop.") else "string"}
        properties[short] = {"anyOf": [properties[short], form]} if short in properties else form
