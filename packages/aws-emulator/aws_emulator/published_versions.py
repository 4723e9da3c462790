"""Publishing of functions' versions: a change of moto, which gives numbers of deleted versions again."""

import copy

from moto.awslambda.models import LambdaFunction, LambdaStorage


def publish_version(storage: LambdaStorage, name_or_arn: str, description: str = "") -> LambdaFunction:
    """Publish the function with a number that is new, even among deleted versions.

    Return the last version if nothing has changed (Lambda developer guide, "Manage Lambda function versions"). A
    version keeps its code when the function gets another.
    """
    function = storage.get_function_by_name_or_arn_forbid_qualifier(name_or_arn)
    versions: list[LambdaFunction] = storage._functions[function.function_name]["versions"]
    if versions and not function.code_or_config_updated:
        return versions[-1]
    function.code_or_config_updated = False
    number = vars(function)["highest_number"] = vars(function).get("highest_number", 0) + 1
    version = copy.copy(function)
    version.code = dict(function.code)
    version.description = description or version.description
    version.set_version(number)
    versions.append(version)
    storage._arns[version.function_arn] = version
    return version
