"""Versions of functions that no deployment ever had."""

from infra.aws.clients import Cloud
from infra.deployment.names import ROLES, function_name
from infra.deployment.stack import Say, Stack


def forget_unborn(cloud: Cloud, stack: Stack, say: Say) -> None:
    """Deletes what an update published before it failed and was rolled back; raises `ClientError`.

    Versions are retained when a stack drops them, these too. The next update would publish the same again, which Lambda
    does not do for a function that equals its last version (API_PublishVersion). Nobody knows of them: a stack's
    outputs change when an update succeeds.
    """
    client = cloud.client("lambda")
    for role in ROLES:
        function, live = (
            function_name(stack.name, role),
            stack.outputs[f"{role.capitalize()}Version"].rpartition(":")[2],
        )
        pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
        for version in pages.search("Versions[].Version"):
            if version != "$LATEST" and int(version) > int(live):
                say(f"deleting version {version} of {role}, which the failed update left")
                client.delete_function(FunctionName=function, Qualifier=version)
