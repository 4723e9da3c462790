"""Names that a store refuses: their replacements, and one line for the user."""

import re

import msgspec
import pytest
from logged_lines import line

from marless.loggers.mlflow_tracking import _valid_name
from marless.loggers.scalars import points
from marless.loggers.valid_names import Names, renaming_text

# mlflow.utils.validation: the characters of a name, and that it is a path in its shortest form.
VALID = re.compile(r"^[/\w.\- ]+$", re.ASCII)

AWKWARD = ["robot#1", "a\nb", "..", "a/../b", "/root", "a//b", "(x)", "@", "№ 7", "é", "x" * 999, ".", "", "a/", "a:b"]


@pytest.mark.parametrize("name", [*AWKWARD, *(f"return/{name}" for name in AWKWARD)])
def test_mlflow_takes_what_comes_out(name):
    from posixpath import normpath

    other = _valid_name(name)
    assert VALID.match(other) and normpath(other) == other and not other.startswith(("/", "..")) and other != "."
    assert len(other) <= 250 and _valid_name(other) == other


@pytest.mark.parametrize("name", ["return/train", "policy/kl/g00", "env/win rate", "return/agent_0.left-1", "a.b"])
def test_names_that_mlflow_takes_stay(name):
    assert _valid_name(name) == name


def test_signs_are_replaced_and_equal_names_numbered():
    names = Names(_valid_name)
    first = {"return/robot@1": 1.0, "return/robot#1": 2.0, "return/robot_1": 3.0}
    assert names.of(first) == {"return/robot_1_2": 1.0, "return/robot_1_3": 2.0, "return/robot_1": 3.0}
    # A later name may be taken by then. Earlier names keep their replacements.
    assert names.of({"return/robot_1_2": 4.0, "return/robot#1": 5.0}) == {
        "return/robot_1_2_2": 4.0,
        "return/robot_1_3": 5.0,
    }
    assert Names(_valid_name).of(first) == {"return/robot_1_2": 1.0, "return/robot_1_3": 2.0, "return/robot_1": 3.0}


def test_no_two_of_many_names_are_the_same():
    given = {f"return/{a}{b}": 0.0 for a in "#@!?_%" for b in ("x" * 400, "1", "_2", "_2_2", "..", "\n")}
    assert len(Names(_valid_name).of(given)) == len(given)


def test_renamed_names_are_told_with_one_example():
    assert renaming_text("mlflow", {"robot#1": "robot_1", "robot#2": "robot_2"}) == (
        "mlflow does not take every name: 'robot#1' is 'robot_1' there, and 1 more"
    )


def test_agent_names_hide_no_scalar_and_are_encodable():
    found = msgspec.structs.replace(line(1), agent_returns=(5.0, 6.0))
    (point,) = points(found, ("train", "b\ud800\n"))
    assert point.scalars["return/train"] == found.return_mean != 5.0
    assert point.scalars["return/agent/train"] == 5.0
    assert point.scalars["return/b\\ud800\\n"] == 6.0
