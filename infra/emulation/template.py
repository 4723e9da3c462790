"""The SAM translation, which CloudFormation does on AWS: done here, without network or credentials."""

import re
from collections.abc import Mapping
from typing import Any

from boto3 import Session
from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

# Translation asks IAM for the ARNs of AWS's own policies; their form is known.
_PARTITION = "aws"


class TranslationFailed(Exception):
    """The template is not a valid SAM template; the message says where."""


def translate(text: str, parameters: Mapping[str, str], region: str) -> dict[str, Any]:
    """The CloudFormation template that the SAM template `text` (YAML) stands for; raises `TranslationFailed`.

    `parameters` are needed because SAM looks through references to them, for one when it names a function's version
    after its settings.
    """
    document = yaml_parse(text)
    translator = Translator({}, Parser(), boto_session=Session(region_name=region))
    try:
        translated: dict[str, Any] = translator.translate(
            document, dict(parameters), get_managed_policy_map=lambda: _MANAGED
        )
    except InvalidDocumentException as error:
        raise TranslationFailed(_said(error)) from error
    translated.pop("Transform", None)
    return translated


class _Managed(dict[str, str]):
    """ARNs of managed policies by their names (IAM user guide, "AWS managed policies")."""

    def __missing__(self, name: str) -> str:
        folder = "service-role/" if name.startswith("AWSLambda") else ""
        return f"arn:{_PARTITION}:iam::aws:policy/{folder}{name}"


_MANAGED = _Managed()


def _said(error: InvalidDocumentException) -> str:
    return re.sub(r"\s+", " ", f"{error.message} {' '.join(cause.message for cause in error.causes)}").strip()
