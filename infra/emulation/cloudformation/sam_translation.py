"""The SAM translation, which CloudFormation does on AWS: done here, without network or credentials.

The translator takes a third of the time that the whole account needs to be imported. It is imported when it is needed,
or, by `prepare`, once the account answers, while its starter prepares to deploy.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samtranslator.model.exceptions import InvalidDocumentException

# Translation asks IAM for the ARNs of AWS's own policies; their form is known.
_PARTITION = "aws"


class TranslationFailed(Exception):
    """The template is not a valid SAM template; the message says where."""


def translate(text: str, parameters: Mapping[str, str], region: str) -> dict[str, Any]:
    """The CloudFormation template of the SAM template `text` (YAML); raises `TranslationFailed`.

    `parameters` are needed because SAM resolves references to them, for example in the name of a function's version.
    """
    from boto3 import Session
    from samtranslator.model.exceptions import InvalidDocumentException
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    document = _parsed(text)
    translator = Translator({}, Parser(), boto_session=Session(region_name=region))
    try:
        translated: dict[str, Any] = translator.translate(
            document, dict(parameters), get_managed_policy_map=lambda: _MANAGED
        )
    except InvalidDocumentException as error:
        raise TranslationFailed(_said(error)) from error
    translated.pop("Transform", None)
    return translated


def prepare() -> None:
    """Imports the translator."""
    translate(_SMALLEST, {}, "us-east-1")


# One function makes the translator read all that it reads only once.
_SMALLEST = """
Transform: AWS::Serverless-2016-10-31
Resources:
  One:
    Type: AWS::Serverless::Function
    Properties: {Handler: one.handler, Runtime: python3.12, CodeUri: "s3://one/zip"}
"""


def _parsed(text: str) -> Any:
    """The document, with functions like ``!Ref`` spelled out."""
    import yaml  # type: ignore[import-untyped]

    return yaml.load(text, Loader=_loader())


@cache
def _loader() -> Any:
    """PyYAML's safe loader, the one in C where there is one, which is ten times as fast."""
    import yaml
    from samtranslator.yaml_helper import intrinsics_multi_constructor

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.add_multi_constructor("!", intrinsics_multi_constructor)
    return Loader


class _Managed(dict[str, str]):
    """ARNs of managed policies by their names (IAM user guide, "AWS managed policies")."""

    def __missing__(self, name: str) -> str:
        folder = "service-role/" if name.startswith("AWSLambda") else ""
        return f"arn:{_PARTITION}:iam::aws:policy/{folder}{name}"


_MANAGED = _Managed()


def _said(error: "InvalidDocumentException") -> str:
    return re.sub(r"\s+", " ", f"{error.message} {' '.join(cause.message for cause in error.causes)}").strip()
