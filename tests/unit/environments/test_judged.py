"""Episodes that a resource grades: the question, and the place of its grade."""

import json

import numpy as np
import pytest
from resource_hosts import asking, in_process

from marless.functions.environments import registry
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.resources.port import RESOURCES
from marless.functions.resources.settings import Resource

COPIES = 3


class Judge:
    def __init__(self, *answers):
        self.answers, self.batches = list(answers), []

    def call(self, name, questions):
        assert name == "judge"
        self.batches.append([json.loads(question) for question in questions])
        return [self.answers.pop(0) for _ in questions]

    def kept_as(self, name, question):
        return ""


def played(judge, steps, task="mpe/simple_spread", seed=3):
    """The observations and steps of `COPIES` environments with actions at random, graded or not."""
    environment = registry.make(EnvTask(name=task, judge="judge" if judge else ""), COPIES)
    rng = np.random.default_rng(seed)
    observations, results, chosen = [environment.reset(np.random.default_rng(seed))], [], []
    with RESOURCES.bind(judge):
        for _ in range(steps):
            kinds = environment.spec.classes
            actions = tuple(rng.integers(kind.actions, size=(COPIES, len(kind.agents))) for kind in kinds)
            chosen.append(actions)
            results.append(environment.step(actions))
            observations.append(results[-1].observation)
    environment.close()
    return observations, results, chosen


def test_copies_that_end_together_are_one_full_batch():
    judge = Judge(*[b"0"] * 2 * COPIES)
    observations, results, actions = played(None, 50)
    played(judge, 50)
    assert [len(batch) for batch in judge.batches] == [COPIES, COPIES]
    for number, batch in enumerate(judge.batches):
        for row, question in enumerate(batch):
            assert question["task"] == "mpe/simple_spread"
            assert question["agents"] == ["agent_0", "agent_1", "agent_2"]
            assert len(question["steps"]) == 25
            for t, step in enumerate(question["steps"], 25 * number):
                np.testing.assert_array_equal(np.float32(step["observations"]), observations[t].values[0][row])
                assert step["actions"] == actions[t][0][row].tolist()
                assert step["rewards"] == results[t].rewards[row].tolist()
            last = results[25 * number + 24].final.values[0][row]
            np.testing.assert_array_equal(np.float32(question["last"]), last)


def test_grade_is_added_only_to_last_rewards():
    _, plain, _ = played(None, 50)
    _, graded, _ = played(Judge(b"1", b"[1, 2, 4]", b"-0.5", b"0", b"0", b"8"), 50)
    added = {24: [[1, 1, 1], [1, 2, 4], [-0.5] * 3], 49: [[0] * 3, [0] * 3, [8] * 3]}
    for t, (before, after) in enumerate(zip(plain, graded, strict=True)):
        np.testing.assert_array_equal(after.rewards, before.rewards + np.array(added.get(t, 0)))
        np.testing.assert_array_equal(after.observation.values[0], before.observation.values[0])


def test_removed_agents_are_null_without_grade():
    """Runner 0 of the relay is out after 2 steps and runner 1 after 3. Runner 2 ends the episode in step 4."""
    judge = Judge(*[b"10"] * COPIES)
    environment = registry.make(EnvTask(name="pettingzoo:relays:Relay", judge="judge"), COPIES)
    environment.reset(np.random.default_rng(0))
    zeros = tuple(np.zeros((COPIES, len(kind.agents)), int) for kind in environment.spec.classes)
    with RESOURCES.bind(judge):
        rewards = [environment.step(zeros).rewards[0].tolist() for _ in range(4)]
    assert rewards == [[1, 2, 3], [1, 2, 3], [0, 2, 3], [0, 0, 13]]
    (question, *_) = judge.batches[0]
    assert [[each is None for each in step["actions"]] for step in question["steps"]] == [
        [False, False, False],
        [False, False, False],
        [True, False, False],
        [True, True, False],
    ]
    assert question["last"] == [None, None, None]


def test_question_has_observations_flattened_in_space_order():
    judge = Judge(b"0")
    environment = registry.make(EnvTask(name="pettingzoo:keyed_sights:make", judge="judge"), 1)
    environment.reset(np.random.default_rng(0))
    with RESOURCES.bind(judge):
        environment.step((np.array([[1, 0]]),))
    ((question,),) = judge.batches
    assert question == {
        "task": "pettingzoo:keyed_sights:make",
        "agents": ["second", "first"],
        "steps": [
            {"observations": [[0, 0, 1, 1, 2, 3, 4], [0, 1, 0, 5, 6, 7, 8]], "actions": [1, 0], "rewards": [10, 20]}
        ],
        "last": [[0, 0, 1, 1, 2, 3, 4], [0, 1, 0, 5, 6, 7, 8]],
    }


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"good", "its answer is no grade, a number or a list of 3"),
        (b'{"grade": 1}', "its answer is no grade, a number or a list of 3"),
        (b"[1, 2]", "it answered 2 numbers for 3 agents"),
        (b"1e999", "its answer is no grade"),
        (b"1e39", r"it answered 1e\+39; the largest grade is 3\.4e\+38"),
        (b"[1, -1e300, 2]", r"it answered -1e\+300; the largest grade is 3\.4e\+38"),
        (b"", "its answer is no grade, a number or a list of 3"),
    ],
)
def test_what_is_no_grade_is_the_environments_fault(answer, says):
    with pytest.raises(EnvironmentFault, match=rf"^task\.judge: resource 'judge': ({says})"):
        played(Judge(*[answer] * COPIES), 25)


def test_judge_outside_run_is_one_line():
    environment = registry.make(EnvTask(name="matrix/climbing", judge="judge"), 1)
    environment.reset(np.random.default_rng(0))
    with pytest.raises(EnvironmentFault, match="resource 'judge': no run is asked here"):
        environment.step((np.zeros((1, 2), int),))


def test_graded_task_has_last_action_and_remark():
    task = EnvTask(name="pettingzoo:relays:Relay", judge="judge", last_action=True)
    environment = registry.make(task, 1)
    bare = registry.make(EnvTask(name=task.name), 1)
    assert environment.spec.classes[0].observation_size == bare.spec.classes[0].observation_size + 4
    assert registry.remark_of(environment) == registry.remark_of(bare)
    assert type(registry.innermost(environment)) is type(bare)


def test_missing_judge_of_task_is_one_line(tmp_path):
    with (
        RESOURCES.bind(asking({}, tmp_path, None)),
        pytest.raises(EnvironmentFault, match=r"the run has no resource 'judge': set resources\.judge"),
    ):
        environment = registry.make(EnvTask(name="matrix/climbing", judge="judge"), 1)
        environment.reset(np.random.default_rng(0))
        environment.step((np.zeros((1, 2), int),))


def test_cached_answer_without_grade_is_named_for_deletion(tmp_path):
    resources = {"judge": Resource(serve="judges:no_grade", keep=True)}
    environment = registry.make(EnvTask(name="matrix/climbing", judge="judge"), 1)
    with in_process(resources, tmp_path) as host, RESOURCES.bind(asking(resources, tmp_path, host)):
        environment.reset(np.random.default_rng(0))
        with pytest.raises(EnvironmentFault) as fault:
            environment.step((np.zeros((1, 2), int),))
    (path,) = (tmp_path / "answers").iterdir()
    assert f"the answer is kept: delete answers/{path.name}, and the resource is asked again" in str(fault.value)
