"""The environment variables that Lambda sets for a function."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aws_emulator.lambda_service.versions import FunctionVersion

Credentials = Callable[[str, str], tuple[str, str, str]]


@dataclass(frozen=True)
class AccountContext:
    """The common settings of all functions: region, account number, endpoint, the source of role credentials, and
    variables that they inherit from the account's process.

    `credentials(role_arn, session_name)` returns access key, secret and token, which must be valid for
    `pool.LIFETIME_S` plus the longest time-out.
    """

    region: str
    number: str
    endpoint: str
    credentials: Credentials
    inherited_variables: tuple[str, ...] = ()


def variables(
    function: FunctionVersion, account: AccountContext, log_stream: str, home: Path, runtime_api: str
) -> dict[str, str]:
    """All environment variables of the function's process.

    It inherits only PATH and `account.inherited_variables` from this process. AWS documentation, "Working with Lambda
    environment variables": a function may set the variables before `function_variables`, but not the later ones.
    AWS_ENDPOINT_URL is specific to the emulation: it directs the SDK's calls to the emulated account. AWS_EXECUTION_ENV
    names the actual interpreter. `home` replaces the environment's own /tmp.
    """
    key, secret, token = account.credentials(function.role_arn, function.name)
    folders = [str(function.code[0])]
    function_variables = dict(function.environment)
    if "PYTHONPATH" in function_variables:
        folders.append(function_variables["PYTHONPATH"])
    return {
        **{name: os.environ[name] for name in account.inherited_variables if name in os.environ},
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TZ": ":UTC",
        "HOME": str(home),
        "TMPDIR": str(home),
        **function_variables,
        "PYTHONPATH": os.pathsep.join(folders),
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_SESSION_TOKEN": token,
        "AWS_REGION": account.region,
        "AWS_DEFAULT_REGION": account.region,
        "AWS_ENDPOINT_URL": account.endpoint,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{sys.version_info.major}.{sys.version_info.minor}",
        "AWS_LAMBDA_FUNCTION_NAME": function.name,
        "AWS_LAMBDA_FUNCTION_VERSION": function.version,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_mb),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_GROUP_NAME": function.log_group,
        "AWS_LAMBDA_LOG_STREAM_NAME": log_stream,
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        "LAMBDA_TASK_ROOT": folders[0],
        "_HANDLER": function.handler,
    }
