"""Translates the SAM template to CloudFormation for the linters: ``python -m scripts.translate template.yaml OUTPUT``.

Linters miss a dangling reference in the SAM template and find it in the translation.
"""

import json
import sys
from pathlib import Path
from typing import Any

from samtranslator.yaml_helper import yaml_parse

from aws_emulator.cloudformation.sam_translation import translate

_REGION = "us-east-1"
# Translation requires code in S3. A deployment sets the actual address.
_CODE = "s3://code/function.zip"


def main() -> None:
    template, output = (Path(text) for text in sys.argv[1:])
    document = with_code_uris(yaml_parse(template.read_text(encoding="utf-8")))
    defaults = {name: str(parameter.get("Default", "")) for name, parameter in document["Parameters"].items()}
    translated = translate(json.dumps(document), defaults, _REGION)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(translated, indent=2) + "\n", encoding="utf-8")


def with_code_uris(document: dict[str, Any]) -> dict[str, Any]:
    """The template with an address in S3 for every function's code."""
    for resource in document["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function" and "CodeUri" in resource["Properties"]:
            resource["Properties"]["CodeUri"] = _CODE
    return document


if __name__ == "__main__":
    main()
