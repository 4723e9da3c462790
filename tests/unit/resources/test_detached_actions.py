"""Detached runs that ask: their tasks' questions are read with the results, without waiting."""

from detached_runs import World

from marless.functions.resources.kept_answers import KeptAnswer
from marless.functions.resources.port import RESOURCES, CallOutcome

JUDGED = ("task.judge=judge", "resources.judge.serve=judges:counted")


class Judge:
    """Grades, and counts its questions. It stores cached answers itself, so they survive any death."""

    def __init__(self):
        self.calls, self.answers = 0, {}

    def ask(self, name, actions):
        return [self._outcome(action) for action in actions]

    def _outcome(self, action):
        if action.key in self.answers:
            return self.answers[action.key].outcome(action.asked_by)
        self.calls += 1
        answer = b"%d" % (sum(action.question) % 10)
        if not action.key:
            return CallOutcome(answer, run_ms=5.0)
        self.answers[action.key] = KeptAnswer(answer, action.asked_by, 5.0)
        return self.answers[action.key].outcome(action.asked_by)


def run(*settings, deadly=None, dropped=None, twice=False):
    judge, world = Judge(), World(*JUDGED, *settings, twice=twice)
    with RESOURCES.hosted(judge):
        return world.run(deadly=deadly, dropped=dropped), judge


def test_bill_and_rounds_have_count_of_judge():
    world, judge = run()
    charge = world.state.meter.actions["judge"]
    assert (charge.count, charge.hits, world.state.status) == (judge.calls, 0, "finished")
    lines = [line.actions["judge"] for line in world.journal]
    assert len(lines) == 2 and all(each.timed == each.count > 0 for each in lines)
    assert sum(each.count for each in lines) < charge.count  # the evaluations at the end are in no round


def test_events_that_come_twice_bill_nothing_twice():
    world, judge = run("resources.judge.keep=true", twice=True)
    assert world.state.meter.actions["judge"].count == judge.calls == len(judge.answers)
    once, _ = run("resources.judge.keep=true")
    assert world.weights == once.weights


def test_death_at_any_write_bills_cached_answers_once():
    undisturbed, _ = run("resources.judge.keep=true")
    deaths = 0
    for number in range(2, undisturbed.written, 11):
        for deadly in (number, -number):
            world, judge = run("resources.judge.keep=true", deadly=deadly)
            assert world.state.status == "finished" and world.weights == undisturbed.weights
            assert world.state.meter.actions["judge"].count == judge.calls == len(judge.answers), deadly
            deaths += world.deaths
    assert deaths > 5


def test_asked_questions_are_deleted_with_their_round():
    world, _ = run()
    left = [key for key in world.storage.dict if key.endswith(".actions.safetensors")]
    results = [key for key in world.storage.dict if key.endswith(".reply.safetensors")]
    # Like answers: the records of the evaluations at the end stay.
    assert {key.removesuffix(".actions.safetensors") for key in left} <= {
        key.removesuffix(".reply.safetensors") for key in results
    }
