"""The sizes of real functions' messages, against the planner's estimates."""

import msgspec
import pytest
from simulated import Lines, MemoryLedger, MemoryStorage, World

from marless.coordinator.config.loading import load
from marless.coordinator.core.planning import next_placement
from marless.coordinator.core.state import Plan
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ports import Ports
from marless.coordinator.placement.message_size import ENVELOPE_BYTES
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import load_prices
from marless.functions.actor import handler as actor
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.evaluator import handler as evaluator
from marless.functions.learner import handler as learner
from marless.functions.messages.exchange import Answer, Done, Report, Request
from marless.functions.messages.learner import RegroupTask

HANDLERS = {"actor": actor.handle, "learner": learner.handle, "evaluator": evaluator.handle}
# Three agents of real tasks that start apart, share after the first full window and are split by the next.
FLIPPING = ("trend.rule=paper", "trend.gamma=100.0", "trend.window=3", "sharing.rule=dynamic", "sharing.start=apart")
EASY = ("sharing.epsilon=10", "sharing.confidence=0.5", "sharing.trial=false", "sharing.distil_steps=1")
SMALL = ("evaluation.episodes=4", "evaluation.final_episodes=4", "actors.num_envs=8", "stop.rounds=7")


def test_state_is_in_every_step_and_episode_end():
    plain = EnvSpec(("a",), (AgentClass("a", (0,), 3, 2),), 5)
    seen = msgspec.structs.replace(plain, state_size=7)
    more = next_placement.rollout_bytes(seen, 20, 4) - next_placement.rollout_bytes(plain, 20, 4)
    assert more == (20 + 4) * 7 * 4  # float32


class Here:
    """Runs functions in this process, one after the other, and keeps (request, its bytes, its answer's bytes)."""

    def __init__(self, storage):
        self.storage, self.reports, self.seen = storage, [], []

    def invoke(self, attempt):
        body = attempt.body()
        answer = HANDLERS[attempt.function](body, self.storage)
        assert isinstance(msgspec.json.decode(answer, type=Answer), Done)
        self.seen.append((msgspec.json.decode(body, type=Request), len(body), len(answer)))
        self.reports.append(
            Report(id=attempt.id, attempt=attempt.number, function=attempt.function, outcome="answered", body=answer)
        )

    def wait(self, timeout_s):
        reports, self.reports = self.reports, []
        return reports


def messages(*settings):
    """(request, largest request and answer reckoned with, request and answer as they were) of all tasks of rounds."""
    plan = Plan("a-run-with-a-name-20261121-121700", load(None, [*SMALL, *settings]), "code", load_prices(), Platform())
    here = Here(MemoryStorage())
    driver = Driver(plan, Ports(here.storage, MemoryLedger(), here, Lines()))
    driver.begin()
    found = []
    while driver.step():
        state = driver.state
        if state.round_placement and state.phase not in ("final", "absolute"):
            layout = next_placement.layout(plan, state)
            reckoned = layout.request_bytes(state.round_placement), layout.answer_bytes(state.round_placement)
            found += [(request, *reckoned, *sizes) for request, *sizes in here.seen]
        here.seen.clear()
    assert driver.state.status == "finished"
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "placement",
    [
        ("placement.rule=packed", "placement.inline_objects=true", "actors.rollouts=3"),
        ("placement.rule=packed", "placement.inline_objects=true", "actors.rollouts=3", *FLIPPING, *EASY),
        ("placement.rule=fused", "placement.inline_objects=true", *FLIPPING, *EASY, "sharing.distance=kde-kl"),
        ("placement.rule=whole", "placement.inline_objects=true", *FLIPPING, *EASY, "algorithm.name=ippo"),
        ("placement.rule=whole", "evaluation.every=10"),
        ("placement.rule=split", "actors.rollouts=3", "scaling.rule=gns", "task.name=mpe/simple_adversary"),
    ],
    ids=lambda settings: " ".join(settings[:3]),
)
def test_no_round_message_exceeds_size_assumed_by_planner(placement):
    found = messages(*placement)
    regrouped = any(isinstance(request, RegroupTask) for request, *_ in found)
    assert regrouped == ("sharing.rule=dynamic" in placement)
    for request, most_asked, most_answered, asked, answered in found:
        assert asked <= most_asked, type(request)
        assert answered <= most_answered, type(request)
    # The estimates are tight: apart from the fixed overhead, the largest messages fill most of them.
    assert max(item[3] / (item[1] - ENVELOPE_BYTES) for item in found) > 0.7
    assert max(item[4] / (item[2] - ENVELOPE_BYTES) for item in found) > 0.5


def test_user_setting_holds_as_far_as_messages_allow():
    settings = ("placement.rule=whole", "placement.chain=100", "placement.inline_objects=true", "actors.rollouts=100")
    config = load(None, [*settings, "evaluation.every=100", "actors.num_envs=64", "stop.rounds=1"])
    state = World(Plan("r", config, "code", load_prices(), Platform())).finish()
    here, deployed, detached = (
        next_placement.configured_placement(Plan("r", config, "code", load_prices(), platform), state)
        for platform in (Platform(), Platform(messages_limited=True), Platform(can_inline=False).on_lambda())
    )
    assert (here.rounds, here.inline_objects) == (100, True)
    # 100 rollouts end 64 episodes each: 100 x (64 + 2) x 25 bytes, and 2 KB of returns a round. Metrics add four KB,
    # and the header of inline objects a third more.
    assert deployed.inline_objects and 10 < deployed.rounds < 20
    assert (detached.rounds, detached.inline_objects) == (100, False)
