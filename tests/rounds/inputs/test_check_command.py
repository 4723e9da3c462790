"""`marless check` describes an environment, and its last line is a command that trains."""

import shlex

import pytest
from commands import SMALL

pytestmark = pytest.mark.usefixtures("no_processes")
PROMISES = "stated.promises:"


def rows_of(said):
    """Return the texts of the first table by their names, without line breaks."""
    rows, name = {}, ""
    for line in said.out[2 : said.out.index("", 2)]:
        name = line[:12].strip() or name
        rows[name] = f"{rows[name]} {line[12:]}" if not line[:12].strip() else line[12:]
    return rows


def test_agents_spaces_masks_and_the_episode_are_shown(marless):
    said = marless("check", "relays:Relay", "task.options.masked=true", "task.options.horizon=5")
    rows = rows_of(said)
    assert (said.code, said.err) == (0, [])
    assert rows["agents"] == "3 agents: runner_0, runner_1, runner_2"
    assert rows["observes"] == "4 numbers: 2 x 2 numbers"
    assert rows["entities"] == "not described" and "equality" not in rows
    assert rows["acts"] == "one of 4 actions"
    assert rows["masks"] == "3 of 4 actions were legal in random play"
    assert rows["horizon"] == "an episode has at most 5 steps (task.options.horizon)"
    assert rows["episodes"].endswith(" episodes of random play, 4 steps long; the rules ended all")
    assert rows["return"].startswith("20.0 on average")
    assert rows["seed"].startswith("the same seed gives the same episodes")


def test_entities_are_counted_with_their_features(marless):
    rows = rows_of(marless("check", "mpe/simple_spread", *SMALL[1:]))
    assert rows["entities"] == "3 landmarks x 2, 2 teammates x 4; own 4"
    assert rows["equality"] == "random play cannot prove that the entities of a block are equal"


def test_last_line_trains_with_length_that_nothing_states(marless):
    said = marless("check", f"{PROMISES}Kept", *SMALL[1:])
    assert rows_of(said)["horizon"] == (
        "an episode has at most 4 steps (stated nowhere, so this check takes the longest episode of random play)"
    )
    _, *command = shlex.split(said.out[-1])
    assert command[:3] == ["train", f"task.name=pettingzoo:{PROMISES}Kept", SMALL[1]]
    assert command[-1] == "task.options.horizon=4"
    assert marless(*command, "--run", "checked", "--workers", "1").code == 0


def test_settings_are_shown_with_what_set_them(marless):
    said = marless("check", "lbf/5x5-2p-1f", "algorithm.name=qmix")
    settings = {line.split()[0]: line.split(maxsplit=2)[1:] for line in said.out if line.startswith(("alg", "sha"))}
    assert settings["algorithm.name"] == ['"qmix"', "you set it"]
    assert settings["algorithm.gamma"][0] == "0.95" and "default for lbf/ (docs" in settings["algorithm.gamma"][1]
    assert settings["algorithm.batch_size"][1].startswith("follows from the environment (")


def test_agents_with_different_names_are_warned_of(marless):
    pytest.importorskip("mpe2")
    tag = "pettingzoo:mpe2.simple_tag_v3:parallel_env"
    text = " ".join(" ".join(marless("check", tag, *SMALL[1:]).out).split())
    assert "adversary and agent are one team. If they compete, set task.options.sides=adversary,agent" in text
    said = marless("check", tag, "task.options.sides=adversary,agent", *SMALL[1:])
    assert "are one team" not in " ".join(said.out)


def test_algorithms_are_those_that_could_learn_the_task(marless):
    said = marless("check", "mpe/simple_spread", "task.options.continuous_actions=true")
    assert rows_of(said)["learned by"].split(", ") == ["ippo", "mappo", "happo", "iddpg", "maddpg", "isac", "masac"]


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        (
            "Unseeded",
            "warning: the environment does not follow its seed. With the same seed and actions, the observation",
        ),
        ("Leftover", "warning: reset leaves something behind. With the same seed and actions, the reward of agent 'b'"),
        (
            "Duel",
            "warning: the rewards of all agents sum to 0 in every step. If agents compete, set task.options.sides",
        ),
        ("Picture", "warning: agent 'a' observes a number outside its observation_space"),
    ],
)
def test_problem_that_run_would_miss_is_warning(marless, name, warning):
    said = marless("check", f"{PROMISES}{name}")
    assert said.code == 0
    assert warning in " ".join(line.strip() for line in said.out)
    assert said.out[-1].endswith(f"train task.name=pettingzoo:{PROMISES}{name} task.options.horizon=4")


def test_rollout_longer_than_actor_limit_is_warning(marless):
    settings = ("functions.actor.timeout_s=0.1", "actors.num_envs=100000", "functions.actor.memory_mb=10240")
    said = marless("check", f"{PROMISES}Kept", *settings)
    assert "warning: a rollout takes" in " ".join(said.out)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ([f"{PROMISES}Vanishing"], "agents ['b'] are gone, but neither terminated nor truncated"),
        ([f"{PROMISES}Endless"], "or give the environment max_cycles; no episode of random play ended in"),
        ([f"{PROMISES}pole"], "makes a Gymnasium environment, whose interface is for one agent: not a team"),
        (["gymnasium:make"], "makes a Gymnasium environment, whose interface is for one agent: not a team"),
        (["mpe/simple_spread", "task.options.continuous_actions=true", "algorithm.name=iql"], "acts in numbers"),
        (["text/check", "algorithm.name=grpo"], "its agents speak"),
        (["text:my_module:make", "algorithm.name=grpo"], "its agents speak"),
        (["mpe/simple_spred"], "did you mean mpe/simple_spread?"),
        (["relays.py"], "it offers pettingzoo:relays:"),
    ],
)
def test_what_cannot_be_trained_is_one_line(marless, line, problem):
    said = marless("check", *line)
    assert said.code == 2
    assert len(said.err) == 1
    assert problem in said.err[0]


def test_estimate_without_length_says_same_as_train(marless):
    said = marless("estimate", f"task.name=pettingzoo:{PROMISES}Endless", "--workers", "1")
    [line] = said.err
    assert said.code == 2
    assert line.startswith(f"marless: pettingzoo:{PROMISES}Endless does not say how long an episode is: add task.opt")
