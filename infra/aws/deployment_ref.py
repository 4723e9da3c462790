"""The deployment that a run uses; stored with the run, so a later deployment does not change it."""

import msgspec


class DeploymentRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A tenant's deployment as it was when the run began, and what the run is called there, whatever becomes of its
    folder.

    `functions` names the published versions that the run keeps to, by 'actor', 'learner', 'evaluator', 'coordinator';
    `memory_mb` and `timeout_s` are theirs. `width` functions may run at once.
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
