import pytest
from msgspec.structs import replace
from simulated import World, answered, make_plan, report

from marless.coordinator.core.state import State
from marless.coordinator.pricing.bill import Charge, Meter
from marless.functions.messages.actor import SampleTask
from marless.reports.lost_attempts import LostAttempts, RetryLines, lost_attempts

MOST = "never reported and {} billed at {} maximum"
# Two seconds of the largest function of one vCPU.
TWO_SECONDS = Charge(invocations=2, billed_ms=2000, mb_ms=1769 * 2000)


@pytest.mark.parametrize(
    ("attempts", "unreported", "text"),
    [
        (0, 0, ""),
        (1, 0, "1 attempt, 12.0 s, $0.00030 of the bill"),
        (1200, 1, "1,200 attempts, 12.0 s, $0.00030 of the bill; 1 " + MOST.format("is", "its")),
        (3, 2, "3 attempts, 12.0 s, $0.00030 of the bill; 2 " + MOST.format("are", "their")),
    ],
)
def test_lost_attempts_are_reported_with_seconds_and_dollars(attempts, unreported, text):
    lost = LostAttempts(attempts=attempts, seconds=12.0, dollars=0.0003, unreported=unreported)
    assert str(lost) == text


def test_lost_attempts_cost_what_they_used():
    lost = lost_attempts(make_plan(), State(lost_use=Meter(actor=TWO_SECONDS, puts=1)))
    # 1769 MB for 2 s at $0.0000133334 a GB-second, two requests at $0.0000002, and a PUT at $0.000005.
    assert lost.dollars == pytest.approx(1769 / 1024 * 2 * 0.0000133334 + 2 * 0.0000002 + 0.000005)
    assert (lost.attempts, lost.seconds, lost.unreported) == (2, 2.0, 0)


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def waiting(plan):
    """The state of a run that waits for its first samples."""
    driver = World(plan).driver()
    while not (driver.state.phase == "round" and driver.state.slots):
        driver.step()
    return driver.state


def with_failures(state, count):
    slots = {work: replace(slot, failures=count, problem="why") for work, slot in state.slots.items()}
    return replace(state, slots=slots)


SAMPLES = ("sample/00000-00000", "sample/00001-00001")


def test_retried_task_is_named_after_its_decision():
    def script(function, request):
        crashes = isinstance(request, SampleTask) and request.address.round == 1 and request.attempt == 0
        return [report(function, request, outcome="crash") if crashes else answered(function, request)]

    world, lines, said = World(make_plan("stop.rounds=3"), script), RetryLines(Clock()), []
    driver = world.driver()
    while driver.step():
        said += lines.lines(world.plan, driver.state)
    assert said == [f"{SAMPLES[0]} of round 2 failed and is tried again: the actor died: exit status 1"]
    assert driver.state.lost_use.actor.invocations == 1


def test_failures_in_a_pause_share_the_next_line():
    clock, plan = Clock(), make_plan("attempts=5", "actors.rollouts=2")
    lines, state = RetryLines(clock), waiting(plan)
    both = f"{SAMPLES[0]} of round 1 and 1 more failed and are tried again: why"
    assert lines.lines(plan, with_failures(state, 1)) == [both]
    assert lines.lines(plan, with_failures(state, 1)) == lines.lines(plan, with_failures(state, 2)) == []
    clock.now += 0.11
    assert lines.lines(plan, with_failures(state, 2)) == [both]
    # The second pause is twice as long as the first.
    clock.now += 0.11
    assert lines.lines(plan, with_failures(state, 3)) == []
    clock.now += 0.11
    assert lines.lines(plan, with_failures(state, 3)) == [both]


def test_abandoned_task_has_no_own_line():
    plan = make_plan("attempts=2", "actors.rollouts=2")
    state = waiting(plan)
    slots = {
        SAMPLES[0]: replace(state.slots[SAMPLES[0]], failures=2, problem="again"),
        SAMPLES[1]: replace(state.slots[SAMPLES[1]], failures=1, problem="it cannot", not_retryable=True),
    }
    assert RetryLines(Clock()).lines(plan, replace(state, slots=slots)) == []
