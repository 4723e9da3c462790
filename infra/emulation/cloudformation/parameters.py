"""The values of a template's parameters, held to what the template says of them. Pure.

Rules and messages: CloudFormation user guide, "Parameters section".
"""

import re
from collections.abc import Mapping
from typing import Any


class InvalidParameters(Exception):
    """Parameters are missing, unknown or not allowed; the message is CloudFormation's."""


def values(defined: Mapping[str, Mapping[str, Any]], given: Mapping[str, str]) -> dict[str, str]:
    """Every parameter's value as text, the defaults among them; raises `InvalidParameters`."""
    if strange := sorted(given.keys() - defined.keys()):
        raise InvalidParameters(f"Parameters: [{', '.join(strange)}] do not exist in the template")
    chosen = {name: str(of["Default"]) for name, of in defined.items() if "Default" in of} | dict(given)
    if missing := sorted(defined.keys() - chosen.keys()):
        raise InvalidParameters(f"Parameters: [{', '.join(missing)}] must have values")
    for name, value in chosen.items():
        if complaint := _complaint(defined[name], value):
            raise InvalidParameters(f"Parameter '{name}' {complaint}")
    return chosen


def _complaint(of: Mapping[str, Any], value: str) -> str:
    """What is wrong with a value, '' if nothing is."""
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
