"""Reads the shipped template and fills it in for a deployment."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from marless.functions.encoding import to_json, to_json_text
from marless.infra.aws.function_settings import ASKABLE
from marless.infra.deployment.function_kinds import with_kinds
from marless.infra.deployment.resource_functions import PARAMETER, TOKENS, logical_id, of_parameter, with_functions
from marless.infra.deployment.stack import IMAGE_SUFFIX, RESOURCE, DeploymentFault

_HERE = Path(__file__).resolve().parent
_RESOURCE = re.compile(r"  (\w+):")
_CODE = re.compile(r"(      CodeUri: )\S+")
_RELEASE = re.compile(r"(      AutoPublishCodeSha256: ).+")
_DEFAULT = re.compile(r"    Default: (\"[^\"]*\"|\S+)")
_BODY_INDENT = " " * 8
_PATTERN = re.compile(r"    AllowedPattern: \"(.*)\"")
_VALUES = re.compile(r"    AllowedValues: \[(.*)\]")
# Parameters of every function, besides parameters named after it.
_OF_EVERY_FUNCTION = ("Tenant", "Code", "Tracing", "LogLevel", "RolePath", "Subnets", "SecurityGroups")
_OF_ONE_FUNCTION = ("{}Memory", "{}Timeout")
# Turns the lines of a function with a zip archive into lines of one with a container image (AWS SAM developer guide,
# "AWS::Serverless::Function"). The name changes too, see the template.
_AS_IMAGE = (
    (re.compile(r"    Metadata:\n      BuildMethod: makefile\n"), ""),
    (re.compile(r"(      FunctionName: .+)"), rf"\1{IMAGE_SUFFIX}"),
    (re.compile(r"      Runtime: .+"), "      PackageType: Image"),
    (re.compile(r"      Handler: (.+)"), r"      ImageConfig:\n        Command: [\1]"),
    (re.compile(r"      CodeUri: .+"), "      ImageUri: {}"),
)


def text() -> str:
    """Return the template with a function for each kind that another package offers.

    It lies next to this module in an installed program. SAM expects it at the top of a source tree.

    Raises `DeploymentFault` where it is in neither.
    """
    for path in (_HERE / "template.yaml", _HERE.parents[1] / "template.yaml"):
        if path.is_file():
            return with_kinds(path.read_text(encoding="utf-8"))
    raise DeploymentFault(f"this installation of marless is damaged: {_HERE} has no template.yaml")


def fill_in(template: str, code: Mapping[str, str], parameters: Mapping[str, str]) -> str:
    """Return the template without comment lines, with a function for each external resource among the `parameters`.

    It has the addresses of the functions' packages, `code` by logical id in lower case. The address of all resources'
    package is ``resource``. A function with an address outside S3 becomes a container image of that address.

    Each function also gets a release: a digest of its package, its lines of the template and its parameters' values.
    SAM publishes a version of a function when its release changes. The release must change only with the function.
    Lambda publishes no version that equals the previous one, and CloudFormation treats that as a failure
    (API_PublishVersion).

    Raises `KeyError` for a function without an address. Lines are replaced like in `sam package`, because a YAML
    library is not a dependency of this program.
    """
    for name, address in code.items():
        if not address.startswith("s3://"):
            template = _with_image(template, name.capitalize(), address)
    values = {**defaults(template), **parameters}
    resources = of_parameter(values.get(PARAMETER, ""))
    external = dict.fromkeys(map(logical_id, resources), RESOURCE)
    template = with_functions(template, resources, values.get(TOKENS, ""), values["Tenant"])
    blocks, lines, logical = _blocks(template), list[str](), ""
    # Who may ask resources holds the versions of their functions, and changes with them.
    askable = [*(blocks[name] for name in external), *(code[RESOURCE] for _ in external)]
    for line in _compact(template):
        if match := _RESOURCE.match(line):
            logical = match[1]
        package = external.get(logical, logical.lower())
        if match := _CODE.fullmatch(line):
            line = match[1] + code[package]
        elif match := _RELEASE.fullmatch(line):
            variables = [name.format(logical) for name in _OF_ONE_FUNCTION]
            settings = [(name, values.get(name, "")) for name in (*_OF_EVERY_FUNCTION, *variables)]
            parts = [blocks.get("Function", ""), blocks[logical], code.get(package, ""), settings]
            parts += askable if ASKABLE in blocks[logical] else []
            line = match[1] + hashlib.sha256(to_json(parts)).hexdigest()
        lines.append(line)
    return "\n".join(lines) + "\n"


def _compact(template: str) -> Iterator[str]:
    """The lines without comments, blank ones, and the inner indentation of the dashboard's JSON, because CloudFormation
    limits a template's bytes."""
    body = ""
    for line in template.splitlines():
        if not line or line.lstrip().startswith("#"):
            continue
        if body and line.startswith(body):
            line = body + line.lstrip()
        else:
            body = _BODY_INDENT if line.endswith("DashboardBody: !Sub |") else ""
        yield line


def _with_image(template: str, function: str, address: str) -> str:

    def patch(match: re.Match[str]) -> str:
        block = match[0]
        for zip_pattern, image in _AS_IMAGE:
            block = zip_pattern.sub(image.format(address), block, count=1)
        return block

    return re.sub(rf"^  {function}:\n(?:    .*\n)+", patch, template, count=1, flags=re.MULTILINE)


def defaults(template: str) -> dict[str, str]:
    """The defaults of the template's parameters, as text."""
    matches = {name: _DEFAULT.search(block) for name, block in _blocks(template).items()}
    return {name: default[1].strip('"') for name, default in matches.items() if default}


def with_defaults(template: str, values: Mapping[str, str]) -> str:
    """The template with `values` as the defaults of its parameters."""
    lines, parameter = [], ""
    for line in template.splitlines():
        if match := _RESOURCE.match(line):
            parameter = match[1]
        if parameter in values and _DEFAULT.match(line):
            line = f"    Default: {to_json_text(values[parameter])}"  # a JSON text is YAML too
        lines.append(line)
    return "\n".join(lines) + "\n"


def allowed_pattern(template: str, parameter: str) -> str:
    """Return a regular expression of the values that the parameter takes. Raises `KeyError` if it takes any."""
    block = _blocks(template)[parameter]
    if pattern := _PATTERN.search(block):
        return pattern[1]
    if values := _VALUES.search(block):
        return values[1].replace(", ", "|")
    raise KeyError(parameter)


def _blocks(template: str) -> dict[str, str]:
    """The lines of each parameter, resource and global setting, by name, without comment lines.

    The names are unique in the template.
    """
    blocks: dict[str, list[str]] = {}
    name = ""
    for line in template.splitlines():
        if match := _RESOURCE.match(line):
            name = match[1]
        elif not line.startswith("    "):
            name = name if not line or line.lstrip().startswith("#") else ""
        elif name and not line.lstrip().startswith("#"):
            blocks.setdefault(name, []).append(line)
    return {name: "\n".join(lines) for name, lines in blocks.items()}
