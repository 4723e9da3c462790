"""A kind of function of another package, in processes of this machine and in an emulated account."""

import shutil

import pytest
from fresh_environments import FreshEnvironment
from installed_plug_ins import PLUG_INS, write_metadata

SMALL = (
    "marless train task.name=toy/signal actors.num_envs=8 algorithm.hidden=[8] evaluation.episodes=4"
    " evaluation.final_episodes=4 stop.rounds=3"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made = FreshEnvironment(tmp_path_factory.mktemp("home"))
    made.borrow_packages()
    made.write_script("marless", "import sys\nfrom marless.cli.app import main\nsys.exit(main())\n")
    write_metadata(made.site, "my_function")
    for module in (PLUG_INS / "my_function").glob("*.py"):
        shutil.copy(module, made.site)
    made(f"{SMALL} algorithm.name=ippo --run reference --workers 1")
    return made


def require_alone(home, run):
    """The function did all of the work, with the same result as actors, learners and evaluators."""
    summary = home.summary(run)
    assert summary["weights_sha256"] == home.summary("reference")["weights_sha256"]
    assert summary["dollars"]["soloist"] > 0 == sum(summary["dollars"][name] for name in ("actor", "learner"))


def test_function_of_other_package_does_all_work(home):
    home(f"{SMALL} algorithm.name=solo functions.soloist.timeout_s=50 --run here --workers 1")
    require_alone(home, "here")


def test_the_function_checks_its_configurations(home):
    said = home(f"! {SMALL} algorithm.name=solo actors.num_envs=100 2>&1")
    assert said == "marless: the command line: actors.num_envs: a soloist plays at most 99 environments\n"


@pytest.mark.slow
def test_an_emulated_account_has_the_function(home):
    try:
        home(f"{SMALL} algorithm.name=solo --run there --backend emulated")
    finally:
        if home.account.exists():  # the run failed
            home("marless cloud teardown --backend emulated --yes --force")
    require_alone(home, "there")
