"""The SAM translation that CloudFormation does on AWS, without network or credentials.

The translator takes a third of the account's import time. So it is imported at the first translation or by `prepare`,
which runs once the account answers, while its caller prepares to deploy.
"""

import copy
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samtranslator.model.exceptions import InvalidDocumentException

# Translation reads the ARNs of AWS's managed policies from IAM. Here they are composed.
_PARTITION = "aws"


class TranslationFailed(Exception):
    """The template is invalid as YAML or as a SAM template. The message gives the place."""


def translate(text: str, parameters: Mapping[str, str], region: str) -> dict[str, Any]:
    """Translates the SAM template `text` (YAML) into a CloudFormation template. Raises `TranslationFailed`.

    `parameters` are needed because SAM resolves references to them, for example when it derives the logical id of a
    function's version from its settings.
    """
    return copy.deepcopy(_translate(text, tuple(parameters.items()), region))


@lru_cache(maxsize=16)  # a deployment shows its changes before it makes them
def _translate(text: str, parameters: tuple[tuple[str, str], ...], region: str) -> dict[str, Any]:
    from boto3 import Session
    from samtranslator.model.exceptions import InvalidDocumentException
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    document = _parse(text)
    translator = Translator({}, Parser(), boto_session=Session(region_name=region))
    try:
        template: dict[str, Any] = translator.translate(
            document, dict(parameters), get_managed_policy_map=lambda: _MANAGED
        )
    except InvalidDocumentException as error:
        raise TranslationFailed(_message(error)) from error
    template.pop("Transform", None)
    return template


def has_transform(text: str) -> bool:
    """Return whether the template has a transform. Raises `TranslationFailed`."""
    return "Transform" in _parse(text)


def prepare() -> None:
    """Imports the modules of a translation and loads its data."""
    translate(_SMALLEST, {}, "us-east-1")


# Translating one function makes the translator load all data that it reads once.
_SMALLEST = """
Transform: AWS::Serverless-2016-10-31
Resources:
  One:
    Type: AWS::Serverless::Function
    Properties: {Handler: one.handler, Runtime: python3.12, CodeUri: "s3://one/zip"}
"""


def _parse(text: str) -> Any:
    """The YAML document with short forms like ``!Ref`` as full intrinsic functions. Raises `TranslationFailed`."""
    import yaml  # type: ignore[import-untyped]

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        where = f"(line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1})"
        raise TranslationFailed(f"Template format error: YAML not well-formed. {where}") from error


@cache
def _loader() -> Any:
    """PyYAML's safe loader, in C if available, which is ten times as fast."""
    import yaml
    from samtranslator.yaml_helper import intrinsics_multi_constructor

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.add_multi_constructor("!", intrinsics_multi_constructor)
    return Loader


class _Managed(dict[str, str]):
    """ARNs of managed policies by name (IAM user guide, "AWS managed policies")."""

    def __missing__(self, name: str) -> str:
        folder = "service-role/" if name.startswith("AWSLambda") else ""
        return f"arn:{_PARTITION}:iam::aws:policy/{folder}{name}"


_MANAGED = _Managed()


def _message(error: "InvalidDocumentException") -> str:
    return re.sub(r"\s+", " ", f"{error.message} {' '.join(cause.message for cause in error.causes)}").strip()
