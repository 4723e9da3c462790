"""Roles and their policies: moto describes them, IAM authorization enforces them."""

import json
from contextlib import suppress
from typing import Any

from aws_emulator.cloudformation.resources.kind import Clients, PhysicalResource, Properties, delete_on_failure
from aws_emulator.iam.role_policies import Rules


class Role:
    """AWS::IAM::Role with inline policies and a permissions boundary."""

    create_only = frozenset({"Path"})

    def __init__(self, clients: Clients, rules: Rules) -> None:
        self._clients, self._rules = clients, rules

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        """The role with its trust, policies and boundary. If its policies are refused, it is removed again."""
        trust = json.dumps(properties["AssumeRolePolicyDocument"])
        path = properties.get("Path", "/")
        role = self._clients("iam").create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=trust)["Role"]
        self._rules.put_trust(role["Arn"], properties["AssumeRolePolicyDocument"])
        with delete_on_failure(
            self, PhysicalResource(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]}), properties
        ) as physical:
            self.update(physical, {}, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        """See `Kind`."""
        old, new = _policies(before), _policies(after)
        if before.get("AssumeRolePolicyDocument") not in (None, after["AssumeRolePolicyDocument"]):
            trust = json.dumps(after["AssumeRolePolicyDocument"])
            self._clients("iam").update_assume_role_policy(RoleName=physical.id, PolicyDocument=trust)
            self._rules.put_trust(physical.attributes["Arn"], after["AssumeRolePolicyDocument"])
        if before.get("PermissionsBoundary") != after.get("PermissionsBoundary"):
            self._bound(physical, after.get("PermissionsBoundary"))
        for name in old.keys() - new.keys():
            _drop_policy(self._clients, self._rules, physical.attributes["Arn"], name)
        for name, document in new.items():
            if old.get(name) != document:
                _put_policy(self._clients, self._rules, physical.attributes["Arn"], name, document)

    def _bound(self, physical: PhysicalResource, boundary: str | None) -> None:
        """Sets or removes the boundary. Its policy must exist, and a later version of the policy has no effect."""
        client = self._clients("iam")
        if boundary is None:
            client.delete_role_permissions_boundary(RoleName=physical.id)
            self._rules.drop_boundary(physical.attributes["Arn"])
            return
        version = client.get_policy(PolicyArn=boundary)["Policy"]["DefaultVersionId"]
        policy_version = client.get_policy_version(PolicyArn=boundary, VersionId=version)["PolicyVersion"]
        client.put_role_permissions_boundary(RoleName=physical.id, PermissionsBoundary=boundary)
        self._rules.put_boundary(physical.attributes["Arn"], policy_version["Document"])

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        client = self._clients("iam")
        self._rules.drop_role(physical.attributes["Arn"])
        with suppress(client.exceptions.NoSuchEntityException):
            for name in client.list_role_policies(RoleName=physical.id)["PolicyNames"]:
                client.delete_role_policy(RoleName=physical.id, PolicyName=name)
            client.delete_role(RoleName=physical.id)


class Policy:
    """AWS::IAM::Policy: an inline policy added to several roles."""

    create_only = frozenset({"PolicyName", "Roles"})

    def __init__(self, clients: Clients, rules: Rules) -> None:
        self._clients, self._rules = clients, rules

    def create(self, name: str, properties: Properties) -> PhysicalResource:
        with delete_on_failure(self, PhysicalResource(name), properties) as physical:
            self.update(physical, {}, properties)
        return physical

    def update(self, physical: PhysicalResource, before: Properties, after: Properties) -> None:
        for name in after["Roles"]:
            role = self._clients("iam").get_role(RoleName=name)["Role"]["Arn"]
            _put_policy(self._clients, self._rules, role, after["PolicyName"], after["PolicyDocument"])

    def delete(self, physical: PhysicalResource, properties: Properties) -> None:
        client = self._clients("iam")
        for name in properties["Roles"]:
            with suppress(client.exceptions.NoSuchEntityException):  # the role, or its policy
                role = client.get_role(RoleName=name)["Role"]["Arn"]
                _drop_policy(self._clients, self._rules, role, properties["PolicyName"])


def _policies(properties: Properties) -> dict[str, Any]:
    return {policy["PolicyName"]: policy["PolicyDocument"] for policy in properties.get("Policies", [])}


def _put_policy(clients: Clients, rules: Rules, role: str, name: str, document: Any) -> None:
    role_name = role.rpartition("/")[2]
    clients("iam").put_role_policy(RoleName=role_name, PolicyName=name, PolicyDocument=json.dumps(document))
    rules.put_policy(role, name, document)


def _drop_policy(clients: Clients, rules: Rules, role: str, name: str) -> None:
    rules.drop_policy(role, name)
    clients("iam").delete_role_policy(RoleName=role.rpartition("/")[2], PolicyName=name)
