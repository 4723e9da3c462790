import pytest

from marless.machine import Machine, this_machine


@pytest.mark.parametrize(("load", "text"), [(7.2, "measured at load 7 on 2 cores"), (3.0, ""), (0.0, "")])
def test_machine_is_busy_above_cores_plus_driver(load, text):
    assert Machine(cores=2, platform="p", python="3", load=load).busy_text == text


@pytest.mark.parametrize(("seconds", "load"), [(10, 7.0), (200, 5.0), (3600, 3.0)])
def test_load_is_mean_over_measured_time(seconds, load):
    assert this_machine(seconds, lambda: (7.0, 5.0, 3.0)).load == load


def test_a_system_without_means_has_no_load():
    def refuse():
        raise OSError

    assert this_machine(10, refuse).busy_text == ""
