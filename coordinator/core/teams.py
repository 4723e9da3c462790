"""Who learns with whom in the first round."""

from coordinator.config.schema import RunConfig
from coordinator.core.opponents import Fixed, opposed
from coordinator.core.sides import classes_by_side
from coordinator.rules.sharing import initial
from functions.contract import Team
from functions.environments.base import EnvSpec


def first(config: RunConfig, spec: EnvSpec, fixed: Fixed | None) -> Team:
    """The team as the rule of sharing begins, with the side that does not learn, if there is one."""
    sharing = config.sharing
    groups = initial(sharing.rule, sharing.start, classes_by_side(spec))
    return opposed(config, spec, fixed, Team(groups=groups, identity=sharing.rule != "none"))
