"""Runs of a base in the emulated account: functions may read it, and the weights equal a local run's."""

import pytest
from emulated_runs import detach, same

BASE = ("base.policies=runs/pretrained", "base.rank=2", "sharing.identity=true", "actors.rollouts=2")


@pytest.mark.parametrize("placement", ["whole", pytest.param("split", marks=pytest.mark.conformance)])
def test_detached_run_of_base_has_local_weights(place, marless, finished, expected, placement):
    if not (place.home / "runs" / "pretrained").exists():
        assert marless.train("pretrained", "sharing.rule=all").code == 0
    detach(marless, f"base-{placement}", *BASE, f"placement.rule={placement}")
    (found,) = finished(f"base-{placement}")
    same(found, expected(marless, *BASE))
