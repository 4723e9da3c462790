"""The deployment that a run uses. It is stored with the run, so a later deployment does not change it."""

import msgspec


class DeploymentRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tenant's deployment when the run began, and the run's name there, which stays when its folder is moved.

    `functions` are the published versions that the run uses, by 'actor', 'learner', 'evaluator', 'coordinator'.
    `memory_mb` and `timeout_s` are their settings. At most `width` functions run at once. `owner` is the AWS user who
    began the run, '' for runs of earlier programs.
    """

    run: str
    tenant: str
    region: str
    stack: str
    bucket: str
    table: str
    functions: dict[str, str]
    memory_mb: dict[str, int]
    timeout_s: dict[str, int]
    width: int
    owner: str = ""
