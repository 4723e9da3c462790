"""Reports of a run for its reader: statistics of returns, evaluation files, the learning curve, policies to play."""

from marless.reports.policy import TeamPolicy, load_policy

__all__ = ["TeamPolicy", "load_policy"]
