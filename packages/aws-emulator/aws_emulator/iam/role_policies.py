"""The policies of the emulated account's roles and buckets, as its stacks define them.

moto drops unknown conditions, so its copies of policies are never evaluated.
"""

from collections.abc import Collection, Mapping

from aws_emulator.iam.policies import Document, Policy, read


class Rules:
    """The policies in force, thread-safe. A change applies from the next request on."""

    def __init__(self) -> None:
        self._roles: dict[str, dict[str, Policy]] = {}
        self._trust: dict[str, Policy] = {}
        self._boundaries: dict[str, Policy] = {}
        self._buckets: dict[str, Policy] = {}
        self._partition_keys: dict[str, str] = {}

    @property
    def partition_keys(self) -> Mapping[str, str]:
        """The partition key's name by table. Requests to other tables have no context key LeadingKeys."""
        return self._partition_keys

    def put_policy(self, role: str, name: str, document: Document | str) -> None:
        """Adds an identity policy to the role with that ARN, or replaces the one of that name."""
        self._roles[role] = {**self._roles.get(role, {}), name: read(document)}

    def put_trust(self, role: str, document: Document) -> None:
        """Sets the role's trust policy, which defines the principals that may assume it and names no resource."""
        self._roles.setdefault(role, {})
        statement_or_list = document["Statement"]
        statements = [statement_or_list] if isinstance(statement_or_list, Mapping) else statement_or_list
        about_it = {**document, "Statement": [{**statement, "Resource": role} for statement in statements]}
        self._trust[role] = read(about_it, of_resource=True)

    def drop_policy(self, role: str, name: str) -> None:
        """Removes a policy from a role. A missing policy is ignored."""
        self._roles[role] = {
            policy_name: policy for policy_name, policy in self._roles.get(role, {}).items() if policy_name != name
        }

    def drop_role(self, arn: str) -> None:
        """Removes a role. Its credentials then have no identity policies."""
        self._roles.pop(arn, None)
        self._trust.pop(arn, None)
        self.drop_boundary(arn)

    def put_boundary(self, role: str, document: Document | str) -> None:
        """Sets the role's permissions boundary, which limits its identity policies."""
        self._boundaries[role] = read(document)

    def drop_boundary(self, role: str) -> None:
        """Removes the permissions boundary, if any."""
        self._boundaries.pop(role, None)

    def put_bucket_policy(self, bucket: str, document: Document | str) -> None:
        """Sets the bucket policy."""
        self._buckets[bucket] = read(document, of_resource=True)

    def drop_bucket_policy(self, bucket: str) -> None:
        """Removes the bucket policy, if any."""
        self._buckets.pop(bucket, None)

    def put_table(self, name: str, partition_key: str) -> None:
        """Sets the name of a table's partition key, which conditions on LeadingKeys need."""
        self._partition_keys[name] = partition_key

    def drop_table(self, name: str) -> None:
        """Removes a table."""
        self._partition_keys.pop(name, None)

    def has_role(self, arn: str) -> bool:
        """Return whether a role with that ARN exists."""
        return arn in self._roles

    def of_role(self, arn: str) -> Collection[Policy]:
        """A role's identity policies. Empty for a missing role."""
        return self._roles.get(arn, {}).values()

    def of_trust(self, arn: str) -> Collection[Policy]:
        """A role's trust policy. Empty without one, so that only the platform itself can assume the role."""
        policy = self._trust.get(arn)
        return (policy,) if policy else ()

    def of_boundary(self, arn: str) -> Policy | None:
        """A role's permissions boundary."""
        return self._boundaries.get(arn)

    def of_bucket(self, bucket: str) -> Collection[Policy]:
        """The bucket policy. Empty if the bucket has none."""
        policy = self._buckets.get(bucket)
        return (policy,) if policy else ()
