"""Fits a run's external resources to a deployment, which has a function of one size for each."""

from collections.abc import Mapping

from msgspec.structs import fields, replace

from marless.cloud.resource_options import FIXED
from marless.coordinator.errors import UserError
from marless.functions.resources.settings import Resource

_DEFAULTS = {field.name: field.default for field in fields(Resource)}


def fit_resources(
    resources: Mapping[str, Resource], deployment: Mapping[str, Resource], deploy: str
) -> dict[str, Resource]:
    """The run's resources with the settings that they were deployed with.

    Raises `UserError` for resources that Lambda cannot serve or that are not deployed, and for settings of the user
    that differ. `deploy` is the command that makes the deployment.
    """
    return {name: _fit(name, resource, deployment.get(name), deploy) for name, resource in resources.items()}


def _fit(name: str, resource: Resource, there: Resource | None, deploy: str) -> Resource:
    _require_lambda(name, resource)
    source = resource.serve or resource.http
    if there is None:
        raise UserError(f"resources.{name} is not deployed; add it with: {deploy} --resource {_option(name, resource)}")
    if source != (there.serve or there.http):
        raise UserError(
            f"resources.{name}: {source} was asked for, and {there.serve or there.http} is deployed; deploy again with:"
            f" {deploy} --resource {_option(name, resource)}"
        )
    for setting in FIXED:
        value, deployed_value = getattr(resource, setting), getattr(there, setting)
        if value not in (_DEFAULTS[setting], deployed_value):
            raise UserError(
                f"resources.{name}.{setting}: {value:g} was asked for, and {deployed_value:g} is deployed; leave it"
                f" out, or deploy again with: {deploy} --resource {_option(name, resource)}"
            )
    return replace(resource, **{setting: getattr(there, setting) for setting in FIXED})


def _require_lambda(name: str, resource: Resource) -> None:
    if resource.command:
        raise UserError(
            f"resources.{name}.command: functions on AWS have no such program; train with the back-end local"
        )
    if resource.sandbox != "none":
        raise UserError(f"resources.{name}.sandbox: Lambda has no {resource.sandbox}; train with the back-end local")
    if resource.rate:
        raise UserError(f"resources.{name}.rate: on AWS only slots limit a resource; leave it out there")


def _option(name: str, resource: Resource) -> str:
    settings = [
        f",{setting}={getattr(resource, setting):g}"
        for setting in FIXED
        if getattr(resource, setting) != _DEFAULTS[setting]
    ]
    return f"{name}={resource.serve or resource.http}{''.join(settings)}"
