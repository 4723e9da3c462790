"""Runs without functions: ports in memory, and an invoker that answers as a test scripts it."""

import dataclasses
import time
from collections.abc import Callable, Iterable

import msgspec

from marless.coordinator.config.loading import load
from marless.coordinator.core.state import Plan
from marless.coordinator.drive.driver import Driver
from marless.coordinator.drive.ledger_items import CHECKPOINT, load_state
from marless.coordinator.drive.ports import Ports
from marless.coordinator.platform import Platform
from marless.coordinator.pricing.prices import load_prices
from marless.functions import codec, keys
from marless.functions.environments.base import AgentClass, EnvSpec
from marless.functions.errors import KeyTaken, NoSuchObject, StaleVersion
from marless.functions.messages.actor import DescribeReply, DescribeTask, SampleReply
from marless.functions.messages.evaluator import EvaluateReply, EvaluateTask
from marless.functions.messages.exchange import Done, Failed, Report, Request
from marless.functions.messages.learner import (
    InitialiseReply,
    InitialiseTask,
    LearnReply,
    LearnTask,
    RegroupReply,
    RegroupTask,
    WholeReply,
    WholeTask,
)
from marless.functions.messages.message import Record
from marless.functions.messages.usage import Usage

SPEC = EnvSpec(agents=("a", "b"), classes=(AgentClass("all", (0, 1), 3, 3),), horizon=5)
SMALL = ("actors.num_envs=2", "evaluation.episodes=2", "evaluation.final_episodes=2", "evaluation.every=2")

_REQUESTS = msgspec.json.Decoder(Request)
_ENCODER = msgspec.json.Encoder()

Script = Callable[[str, Request], Iterable[Report]]


def make_plan(*overrides, init_limit_ms=0):
    config, platform = load(None, ["placement.rule=packed", *SMALL, *overrides]), Platform(init_limit_ms=init_limit_ms)
    return Plan("r", config, "code", load_prices(), platform)


def promising(plan, **fields):
    return dataclasses.replace(plan, platform=msgspec.structs.replace(plan.platform, **fields))


def on_lambda(plan, **fields):
    """The plan on deployed functions, with these other abilities of their platform."""
    return promising(dataclasses.replace(plan, platform=plan.platform.on_lambda()), **fields)


def objects(request):
    """The objects that a task stores: kinds and references to fake bodies."""
    match request:
        case DescribeTask() | EvaluateTask():
            kinds = []
        case InitialiseTask() | WholeTask() | RegroupTask():
            kinds = ["policies", "learner"]
        case LearnTask(partial=int()):
            kinds = ["tensors"]
        case LearnTask():
            kinds = ["policies"] * ("policy" in request.stages) + ["tensors"] * request.publish_tensors + ["learner"]
        case _:
            kinds = ["trajectory"]
    named = {kind: keys.object_key(request.address.output, kind) for kind in kinds}
    return {kind: codec.reference(key, key.encode()) for kind, key in named.items()}


def reply(request, returns=-1.0, spec=SPEC):
    """A well-formed reply. Every episode returns `returns`, or each of an evaluation its own."""
    match request:
        case DescribeTask():
            return DescribeReply(spec=spec)
        case InitialiseTask():
            return InitialiseReply()
        case LearnTask():
            return LearnReply(metrics={f"{stage}/loss/g00": 0.5 for stage in request.stages})
        case RegroupTask():
            return RegroupReply()
        case WholeTask():
            sampled, metrics = sample_reply(request, returns), {"policy/loss/g00": 0.5}
            return WholeReply(
                samples=(sampled,) * request.rounds, learns=(LearnReply(metrics=metrics),) * request.rounds
            )
        case EvaluateTask():
            return EvaluateReply(returns=returns if isinstance(returns, tuple) else (returns,) * request.episodes)
    return sample_reply(request, returns)


def sample_reply(request, returns):
    """The answer to a request's rollouts if every episode returns `returns`."""
    sampling = request.sampling
    each = sampling.num_envs * sampling.rollout_length // SPEC.horizon
    episodes = each * len(sampling.rollouts)
    steps = sampling.num_envs * len(sampling.rollouts) * sampling.rollout_length
    return SampleReply(
        env_steps=steps,
        returns=(returns,) * episodes,
        agent_returns=((each * returns / 2,) * 2,) * len(sampling.rollouts),
    )


def report(function, request, answer=None, outcome="answered", duration_ms=10.0, init_ms=0.0):
    """The platform's report of an attempt. A lost attempt has no `answer`."""
    body = _ENCODER.encode(answer) if answer else b""
    return Report(
        id=request.address.id,
        attempt=request.attempt,
        function=function,
        outcome=outcome,
        body=body,
        duration_ms=duration_ms,
        init_ms=init_ms,
        detail="exit status 1",
    )


def answered(function, request, returns=-1.0, usage=None, spec=SPEC, stored=objects, **timing):
    refs = stored(request)
    usage = usage or Usage(puts=0 if request.inline_objects else len(refs), gets=1)
    inlined = {ref.key: ref.key.encode() for ref in refs.values()} if request.inline_objects else {}
    done = Done(
        id=request.address.id,
        attempt=request.attempt,
        objects=refs,
        reply=reply(request, returns, spec),
        usage=usage,
        inlined=inlined,
    )
    return report(function, request, done, **timing)


def failed(function, request, again=True, message="it raised"):
    kind = "environment" if again else "not_finite"
    answer = Failed(id=request.address.id, attempt=request.attempt, kind=kind, message=message, again=again)
    return report(function, request, answer)


def well(function, request):
    return [answered(function, request)]


class MemoryStorage(dict):
    def get(self, key, size=None):
        if key not in self:
            raise NoSuchObject(key)
        return self[key]

    def put(self, key, body):
        if key in self:
            raise KeyTaken(key)
        self[key] = body

    def persist(self, names):
        assert set(names) <= set(self)

    def delete(self, names):
        for key in list(names):
            self.pop(key, None)

    def list(self, prefix):
        return sorted(key for key in self if key.startswith(prefix))


class ReadStorage(MemoryStorage):
    """Remembers the keys that were read, in order."""

    def __init__(self, *objects):
        super().__init__(*objects)
        self.asked = []

    def get(self, key, size=None):
        self.asked.append(key)
        return super().get(key, size)


class NoStorage:
    """Storage that refuses all requests: objects travel inside messages."""

    def get(self, key, size=None):
        raise AssertionError(f"{key} was read from storage")

    def put(self, key, body):
        raise AssertionError(f"{key} was put into storage")


class MemoryLedger(dict):
    """Items in memory. `commits` counts writes."""

    commits = 0

    def load(self, item):
        return self.get(item)

    def commit(self, item, body, version):
        if (self[item].version if item in self else 0) != version:
            raise StaleVersion(item, len(self[item].body) if item in self else 0)
        self[item] = Record(version=version + 1, body=body)
        self.commits += 1
        return version + 1

    def persist(self):
        pass

    def now(self):
        return time.time()

    def close(self):
        pass


class ScriptedInvoker:
    """Answers each attempt with `script`'s reports, one a second. `asked` lists the requests."""

    def __init__(self, script, storage):
        self.script, self.storage = script, storage
        self.asked, self.queue, self.now = [], [], 0.0

    def invoke(self, attempt):
        """Queue the script's reports for the request, and store their objects unless these travel along."""
        request = _REQUESTS.decode(attempt.body())
        self.asked.append(request)
        reports = list(self.script(attempt.function, request))
        answers = [] if request.inline_objects else [said(item) for item in reports]
        for done in answers:
            if isinstance(done, Done):
                self.storage.update({ref.key: ref.key.encode() for ref in done.objects.values()})
        self.queue.extend(reports)

    def wait(self, timeout_s):
        self.now += 1.0
        reports, self.queue = self.queue[:1], self.queue[1:]
        return reports

    def close(self):
        self.queue.clear()


def said(item):
    return msgspec.json.decode(item.body, type=Done | Failed) if item.body else None


class Lines(list):
    def record(self, line):
        self[:] = [*(earlier for earlier in self if earlier.round < line.round), line]

    def persist(self):
        pass


class World:
    def __init__(self, plan, script=well):
        self.plan = plan
        self.storage, self.ledger, self.journal = MemoryStorage(), MemoryLedger(), Lines()
        self.invoker = ScriptedInvoker(script, self.storage)

    def driver(self):
        """A new driver that has resumed the run. Replies to an earlier driver's requests are dropped."""
        self.invoker.close()
        ports = Ports(self.storage, self.ledger, self.invoker, self.journal)
        driver = Driver(self.plan, ports, lambda: self.invoker.now)
        driver.begin()
        return driver

    def finish(self, driver=None, after=lambda state: None, steps=5000):
        """Drives to the end and returns the state. `after` looks at the state after every step."""
        driver = driver or self.driver()
        for _ in range(steps):
            going = driver.step()
            after(driver.state)
            if not going:
                return driver.state
        raise AssertionError("the run did not end")

    def finish_over_kills(self, kills, most_steps):
        """Drives to the end, a new driver taking over before the steps `kills`, and returns the last driver.

        Every object in use is stored after every step, and only these are left at the end.
        """
        driver = self.driver()
        for step in range(most_steps):
            if step in kills:
                driver = self.driver()
            going = driver.step()
            assert not self.missing(driver.state)
            if not going:
                break
        assert driver.state.status == "finished"
        assert set(self.storage) == {ref.key for ref in driver.state.durable_refs}
        return driver

    def missing(self, state):
        """Keys that the state, the last checkpoint or the round in flight refer to and storage does not hold."""
        checkpoint = load_state(self.ledger, CHECKPOINT)
        refs = [*state.durable_refs, *(checkpoint.durable_refs if checkpoint else ()), *state.round_refs]
        return {ref.key for ref in refs} - set(self.storage)
