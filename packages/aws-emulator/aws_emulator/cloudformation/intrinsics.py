"""The intrinsic functions of CloudFormation that our template uses. Pure.

Rules: CloudFormation user guide, "Intrinsic function reference" and "Pseudo parameters reference".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

_NO_VALUE = object()
_VARIABLE = re.compile(r"\$\{(!?)([^}]+)\}")


class Unresolved(Exception):
    """A template uses an undefined name or a function that is not emulated. The message names it."""


@dataclass
class Scope:
    """The values of the names in a template.

    `parameters` holds parameters and pseudo parameters. `resources` holds the value of `Ref` and the attributes of each
    existing resource.
    """

    template: Mapping[str, Any]
    parameters: Mapping[str, Any]
    resources: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)

    def resolve(self, value: Any) -> Any:
        """`value` with every intrinsic function replaced by its result. Raises `Unresolved`."""
        result = self._resolve(value)
        return None if result is _NO_VALUE else result

    def holds(self, condition: str) -> bool:
        """Return whether the template's condition of that name is true. Raises `Unresolved`."""
        try:
            return self._test(self.template.get("Conditions", {})[condition])
        except KeyError:
            raise Unresolved(f"there is no condition {condition}") from None

    def _resolve(self, value: Any) -> Any:
        if isinstance(value, list):
            return [part for item in value if (part := self._resolve(item)) is not _NO_VALUE]
        if not isinstance(value, dict):
            return value
        if (name := function(value)) is not None:
            return self._call(name, value[name])
        result_by_key = {key: self._resolve(item) for key, item in value.items()}
        return {key: item for key, item in result_by_key.items() if item is not _NO_VALUE}

    def _call(self, name: str, argument: Any) -> Any:
        try:
            call = self._functions[name]
        except KeyError:
            raise Unresolved(f"{name} is not emulated") from None
        return call(argument)

    @cached_property
    def _functions(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "Ref": self._ref,
            "Fn::GetAtt": self._attribute,
            "Fn::Sub": self._substitute,
            "Fn::Join": lambda of: str(of[0]).join(str(item) for item in self._resolve(of[1])),
            "Fn::If": lambda of: self._resolve(of[1] if self.holds(of[0]) else of[2]),
            "Fn::Select": lambda of: self._resolve(of[1])[int(self._resolve(of[0]))],
            "Fn::Split": lambda of: str(self._resolve(of[1])).split(of[0]),
        }

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return _NO_VALUE
        if name in self.parameters:
            return self.parameters[name]
        if name in self.resources:
            return self.resources[name][0]
        raise Unresolved(f"there is no {name} to refer to")

    def _attribute(self, argument: str | list[str]) -> str:
        name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        try:
            return self.resources[name][1][attribute]
        except KeyError:
            raise Unresolved(f"{name} has no attribute {attribute}") from None

    def _substitute(self, argument: str | list[Any]) -> str:
        text, local = (argument, {}) if isinstance(argument, str) else argument

        def one(match: re.Match[str]) -> str:
            literal, name = match[1], match[2]
            if literal:
                return f"${{{name}}}"
            if name in local:
                return str(self._resolve(local[name]))
            return str(self._attribute(name) if "." in name else self._ref(name))

        return _VARIABLE.sub(one, text)

    def _test(self, condition: Any) -> bool:
        name = function(condition) or "Condition"
        argument = condition[name]
        if name == "Condition":
            return self.holds(argument)
        if name == "Fn::Equals":
            one_side, other_side = (self._resolve(side) for side in argument)
            return str(one_side) == str(other_side)
        tests = {"Fn::Not": lambda operands: not operands[0], "Fn::And": all, "Fn::Or": any}
        return bool(tests[name]([self._test(item) for item in argument]))


def function(value: Any) -> str | None:
    """The name of the intrinsic function that `value` calls, or None."""
    if isinstance(value, dict) and len(value) == 1:
        name = next(iter(value))
        if name == "Ref" or str(name).startswith("Fn::"):
            return str(name)
    return None


def names(value: Any) -> Iterator[str]:
    """The names of the resources and parameters that `value` depends on."""
    if isinstance(value, list):
        for item in value:
            yield from names(item)
    elif isinstance(value, dict):
        intrinsic = function(value)
        if intrinsic == "Ref":
            yield value["Ref"]
        elif intrinsic == "Fn::GetAtt":
            of = value["Fn::GetAtt"]
            yield of.split(".", 1)[0] if isinstance(of, str) else of[0]
        elif intrinsic == "Fn::Sub":
            of = value["Fn::Sub"]
            text = of if isinstance(of, str) else of[0]
            yield from (match[2].split(".", 1)[0] for match in _VARIABLE.finditer(text) if not match[1])
            yield from names([] if isinstance(of, str) else of[1])
        else:
            for item in value.values():
                yield from names(item)
