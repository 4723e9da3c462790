"""Creates or updates a tenant's stack."""

import time
from collections.abc import Mapping, Sequence

from marless.infra.aws.clients import Cloud
from marless.infra.aws.error_messages import storage_errors
from marless.infra.deployment.description import Deployment, describe_stack
from marless.infra.deployment.package_upload import Packages, addresses, keep_image, upload, upload_template
from marless.infra.deployment.resource_functions import PARAMETER, of_parameter, require_names
from marless.infra.deployment.stack import (
    BROKEN,
    TENANT_TAG,
    WHOLE,
    Change,
    DeploymentFault,
    Request,
    Say,
    Stack,
    Stacks,
    Wait,
    stack_name,
)
from marless.infra.deployment.teardown import remove_kept, remove_stack
from marless.infra.deployment.template import fill_in, text, with_defaults

# API_CreateStack, TemplateBody and TemplateURL.
_LONGEST_TEMPLATE, _LONGEST_FILE = 51_200, 1_000_000
# Another process may deploy at the same time. Its stack is then updated.
_ATTEMPTS = 3
_SUCCEEDED = ("CREATE_COMPLETE", "UPDATE_COMPLETE")


def deploy(
    cloud: Cloud,
    tenant: str,
    parameters: Mapping[str, str],
    packages: Packages | None = None,
    template: str | None = None,
    tags: Mapping[str, str] | None = None,
    service_role: str | None = None,
    say: Say = lambda line: None,
    wait: Wait = time.sleep,
) -> Deployment:
    """Create or update the tenant's stack. Idempotent.

    `parameters` are the template's except Tenant and Release. Omitted parameters have their defaults. `template`
    replaces the shipped one. `tags` are the stack's tags besides its tenant. None keeps its present tags.
    CloudFormation acts as `service_role` (ARN). `say` is called with a line for every step. A new version of each
    changed function is published. Earlier versions stay. A stack with a failed creation is removed and created again.
    Raises `DeploymentFault` with the first failure, `StorageFault` if AWS refuses a request.
    """
    name, stacks = stack_name(tenant), Stacks(cloud, wait)
    with storage_errors("deploy", f"stack {name}"):
        code = upload(cloud, *_place(cloud), tenant, packages or Packages(), say)
        request = _request(cloud, stacks, tenant, parameters, code, template, tags, service_role)
        stack = _put(cloud, stacks, name, request, say)
        stacks.protect(stack, True)
        keep_image(cloud, tenant, code["learner"])
        return describe_stack(stack)


def preview(
    cloud: Cloud,
    tenant: str,
    parameters: Mapping[str, str],
    packages: Packages | None = None,
    tags: Mapping[str, str] | None = None,
    service_role: str | None = None,
    wait: Wait = time.sleep,
) -> Sequence[Change]:
    """Return the changes that `deploy` with the same arguments would make, by a change set that is deleted.

    It uploads only a too long template. Raises `DeploymentFault` if the stack cannot be changed now, or `StorageFault`.
    """
    name, stacks = stack_name(tenant), Stacks(cloud, wait)
    with storage_errors("preview", f"stack {name}"):
        code = addresses(cloud, *_place(cloud), tenant, packages or Packages())
        request = _request(cloud, stacks, tenant, parameters, code, None, tags, service_role)
        stack = stacks.find(name)
        if stack is not None and stack.status not in WHOLE:
            raise DeploymentFault(f"stack {name} is {stack.status}; `marless cloud deploy` says what to do")
        return stacks.preview(name, stack is not None, request)


def filled_in(
    cloud: Cloud,
    tenant: str,
    parameters: Mapping[str, str],
    packages: Packages | None = None,
    say: Say = lambda line: None,
) -> str:
    """Return the template that `deploy` sends, with the parameters' values as defaults. Its packages are uploaded.

    The stack is not touched. Images do not expire, as they may be deployed at any time. Raises the errors of `deploy`.
    """
    name = stack_name(tenant)
    with storage_errors("prepare", f"stack {name}"):
        code = upload(cloud, *_place(cloud), tenant, packages or Packages(), say)
        keep_image(cloud, tenant, code["learner"])
        parameters_ = {**parameters, "Tenant": tenant}
        return with_defaults(fill_in(text(), code, parameters_), parameters_)


def _place(cloud: Cloud) -> tuple[str, str]:
    return cloud.client("sts").get_caller_identity()["Account"], cloud.client("cloudformation").meta.region_name


def _request(
    cloud: Cloud,
    stacks: Stacks,
    tenant: str,
    parameters: Mapping[str, str],
    code: Mapping[str, str],
    template: str | None,
    tags: Mapping[str, str] | None,
    service_role: str | None,
) -> Request:
    parameters_ = {**parameters, "Tenant": tenant}
    stack = stacks.find(stack_name(tenant)) if tags is None else None
    tags_ = {**(tags or {}), **(stack.tags if stack else {}), TENANT_TAG: tenant}
    require_names(stack_name(tenant), of_parameter(parameters.get(PARAMETER, "")))
    body = fill_in(text() if template is None else template, code, parameters_)
    size, url = len(body.encode()), ""
    if size > _LONGEST_FILE:
        raise DeploymentFault(f"the template has {size:,} bytes, CloudFormation takes {_LONGEST_FILE:,}")
    if size > _LONGEST_TEMPLATE:
        url = upload_template(cloud, *_place(cloud), tenant, body)
    return Request(body, parameters_, tags_, service_role, url)


def _put(cloud: Cloud, stacks: Stacks, name: str, request: Request, say: Say) -> Stack:
    for _ in range(_ATTEMPTS):
        before = _ready(cloud, stacks, name, say)
        say(f"{'updating' if before else 'creating'} stack {name}")
        put = stacks.put(name, before is not None, request)
        if put == "same" and before is not None:
            say(f"stack {name} is up to date")
            return before
        after = stacks.wait_until_stable(name, say)
        if put == "begun":
            if after is None or after.status not in _SUCCEEDED:
                raise DeploymentFault(_failure(stacks, name, after))
            return after
    raise DeploymentFault(f"another process keeps changing stack {name}; wait until it ends and deploy again")


def _ready(cloud: Cloud, stacks: Stacks, name: str, say: Say) -> Stack | None:
    stack = stacks.find(name)
    if stack is not None and stack.busy:
        say(f"stack {name} is {stack.status}; waiting for its end")
        stack = stacks.wait_until_stable(name, say)
    if stack is not None and stack.status == "UPDATE_ROLLBACK_COMPLETE":
        forget_unborn(cloud, stack, say)
    if stack is None or stack.status in WHOLE:
        return stack
    if stack.status in BROKEN:
        say(f"stack {name} is {stack.status}; removing it first")
        remove_stack(stacks, stack, say)
        remove_kept(cloud, stacks, stack, say)
        return None
    way_out = "remove what is left of it with `marless cloud teardown`, and deploy again"
    if stack.status == "UPDATE_ROLLBACK_FAILED":
        way_out = "continue its rollback in the AWS console, or remove it with `marless cloud teardown`"
    raise DeploymentFault(f"stack {name} is {stack.status} and cannot be changed: {stacks.why(stack.id)}; {way_out}")


def _failure(stacks: Stacks, name: str, stack: Stack | None) -> str:
    if stack is None:
        return f"stack {name} was deleted by another process while it was deployed; deploy again"
    why = stacks.why(stack.id)
    if "'MemorySize' value failed" in why:  # Lambda developer guide, "Lambda quotas": new accounts have less memory
        why += "; deploy with less memory, such as --learner-memory 3008, or request a higher quota from AWS Support"
    return f"stack {name} is {stack.status}: {why}"


def forget_unborn(cloud: Cloud, stack: Stack, say: Say) -> None:
    """Delete the versions that a failed and rolled back update published. Raises `ClientError`.

    The template retains versions that a stack drops, these included. The next update would publish the same version
    again, which Lambda does not do for a function that equals its last version (API_PublishVersion). No run uses them:
    a stack's outputs change only when an update succeeds.
    """
    client = cloud.client("lambda")
    for output in (name for name in stack.outputs if name.endswith("Version")):
        # The output is an ARN: arn:aws:lambda:REGION:ACCOUNT:function:NAME:VERSION.
        function, live = stack.outputs[output].split(":")[-2:]
        pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
        for version in pages.search("Versions[].Version"):
            if version != "$LATEST" and int(version) > int(live):
                say(f"deleting version {version} of {function}, which the failed update left")
                client.delete_function(FunctionName=function, Qualifier=version)
