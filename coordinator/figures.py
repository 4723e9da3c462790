"""What the answered tasks of a round say of it: returns, evaluations, and its line of metrics."""

import numpy as np

from coordinator import budget
from coordinator.state import Evaluated, Plan, RoundLine, State
from functions.contract import EvaluateReply, LearnReply, SampleReply


def round_line(plan: Plan, state: State) -> RoundLine:
    """The line of the round in flight, all of its tasks answered."""
    samples = [
        slot.done.reply for name, slot in sorted(state.slots.items()) if name.startswith("sample/") and slot.done
    ]
    replies = [reply for reply in samples if isinstance(reply, SampleReply)]
    returns = np.array([value for reply in replies for value in reply.returns])
    weights = np.array([len(reply.returns) for reply in replies if reply.returns], float)
    agents = np.array([reply.agent_returns for reply in replies if reply.returns])
    figures: dict[str, float] = {}
    for slot in state.slots.values():
        if slot.done and isinstance(slot.done.reply, LearnReply):
            figures |= slot.done.reply.figures
    return RoundLine(
        round=state.round + 1,
        env_steps=state.env_steps + sum(reply.env_steps for reply in replies),
        seconds=state.seconds,
        dollars=float(budget.dollars(plan, state.meter)),
        units=plan.config.scaling.units,
        learners=sum(slot.function == "learner" for slot in state.slots.values()),
        groups=len(state.groups),
        invocations=len(state.slots),
        episodes=len(returns),
        return_mean=float(returns.mean()) if len(returns) else None,
        return_sd=float(returns.std(ddof=1)) if len(returns) > 1 else None,
        agent_returns=tuple((weights @ agents / weights.sum()).tolist()) if len(returns) else (),
        scalars=_mean_scalars(replies),
        figures=figures,
        evaluation=evaluated(state),
    )


def _mean_scalars(replies: list[SampleReply]) -> dict[str, float]:
    """Means over episodes, whatever invocations played them."""
    named = {name: [reply for reply in replies if name in reply.scalars] for reply in replies for name in reply.scalars}
    return {
        name: float(np.average([reply.scalars[name] for reply in of], weights=[len(reply.returns) for reply in of]))
        for name, of in sorted(named.items())
    }


def evaluated(state: State) -> Evaluated | None:
    """The evaluation in flight, None when there is none."""
    returns = returns_of(state, "evaluate/")
    return Evaluated(round=state.round, env_steps=state.env_steps, returns=returns) if returns else None


def returns_of(state: State, prefix: str) -> tuple[float, ...]:
    """The episodes of all parts, in the order of parts."""
    dones = [slot.done for name, slot in sorted(state.slots.items()) if name.startswith(prefix)]
    return tuple(r for done in dones if done and isinstance(done.reply, EvaluateReply) for r in done.reply.returns)
