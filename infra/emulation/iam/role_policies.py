"""The policies of the emulated account's roles and buckets, as its stacks define them.

moto drops conditions that it does not know, so its copies of policies are never used.
"""

from collections.abc import Collection, Mapping

from infra.emulation.iam.policies import Document, Policy, read


class Rules:
    """The policies in force; safe for any number of threads. A change holds from the next request on."""

    def __init__(self) -> None:
        self._roles: dict[str, dict[str, Policy]] = {}
        self._trust: dict[str, Policy] = {}
        self._buckets: dict[str, Policy] = {}
        self._partition_keys: dict[str, str] = {}

    @property
    def partition_keys(self) -> Mapping[str, str]:
        """What the partition key of each table is called; tables that are not in here are closed to conditions."""
        return self._partition_keys

    def put_policy(self, role: str, name: str, document: Document | str) -> None:
        """An identity policy of the role with that ARN, in the place of the one of that name."""
        self._roles[role] = {**self._roles.get(role, {}), name: read(document)}

    def put_trust(self, role: str, document: Document) -> None:
        """The role's trust policy, which says who may assume it and names no resource."""
        self._roles.setdefault(role, {})
        stated = document["Statement"]
        statements = [stated] if isinstance(stated, Mapping) else stated
        about_it = {**document, "Statement": [{**statement, "Resource": role} for statement in statements]}
        self._trust[role] = read(about_it, of_resource=True)

    def drop_policy(self, role: str, name: str) -> None:
        """Takes a policy from a role; a missing policy is ignored."""
        self._roles[role] = {kept: policy for kept, policy in self._roles.get(role, {}).items() if kept != name}

    def drop_role(self, arn: str) -> None:
        """Removes a role; its credentials are invalid from then on."""
        self._roles.pop(arn, None)
        self._trust.pop(arn, None)

    def put_bucket_policy(self, bucket: str, document: Document | str) -> None:
        """The bucket's own policy."""
        self._buckets[bucket] = read(document, of_resource=True)

    def drop_bucket_policy(self, bucket: str) -> None:
        """Removes the bucket's policy."""
        self._buckets.pop(bucket, None)

    def put_table(self, name: str, partition_key: str) -> None:
        """Sets the name of a table's partition key, which conditions on LeadingKeys need."""
        self._partition_keys[name] = partition_key

    def drop_table(self, name: str) -> None:
        """Removes a table."""
        self._partition_keys.pop(name, None)

    def has_role(self, arn: str) -> bool:
        """Whether there is a role with that ARN."""
        return arn in self._roles

    def of_role(self, arn: str) -> Collection[Policy]:
        """A role's policies; nothing for one that is not there."""
        return self._roles.get(arn, {}).values()

    def of_trust(self, arn: str) -> Collection[Policy]:
        """A role's trust policy; without one only the platform itself can assume the role."""
        policy = self._trust.get(arn)
        return (policy,) if policy else ()

    def of_bucket(self, bucket: str) -> Collection[Policy]:
        """The bucket's own policy, if it has one."""
        policy = self._buckets.get(bucket)
        return (policy,) if policy else ()
