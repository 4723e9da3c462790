"""The learner function: trajectories and the learner's state to new policies and a new state."""

from functions.algorithms import registry as algorithms
from functions.algorithms.base import Context
from functions.contract import InitialiseReply, InitialiseTask, LearnReply, LearnTask, Team
from functions.environments import registry as environments
from functions.learner import batch, stages
from functions.ports import Blobs
from functions.serving import Objects, Tensors, read, serve


def handle(body: bytes, blobs: Blobs) -> bytes:
    """Answers an encoded `InitialiseTask` or `LearnTask`."""
    return serve(body, blobs, {InitialiseTask: initialise, LearnTask: learn})


def initialise(task: InitialiseTask, blobs: Blobs) -> tuple[Objects, InitialiseReply]:
    """Draws the networks of round 0, each agent's at an address of its own."""
    spec = environments.spec(task.environment)
    algorithm = algorithms.algorithm(task.algorithm)
    config = algorithms.configuration(algorithm, task.hyperparameters)
    code = algorithms.implementation(algorithm)
    everyone = range(len(spec.agents))
    team = Team(groups=tuple(everyone), identity=task.identity)
    tensors: Tensors = {}
    for agent in everyone:
        tensors |= code.initialise(spec, team, config, task.seed, agent)
    policies, learner, _ = _sorted_out(tensors, algorithm.parts)
    return [("policies", policies), ("learner", learner)], InitialiseReply(
        agents=spec.agents,
        classes=tuple(next(i for i, kind in enumerate(spec.classes) if agent in kind.agents) for agent in everyone),
        horizon=spec.horizon,
    )


def learn(task: LearnTask, blobs: Blobs) -> tuple[Objects, LearnReply]:
    """Runs the task's stages for its groups."""
    algorithm = algorithms.algorithm(task.algorithm)
    spec = environments.spec(task.environment)
    context = Context(
        spec=spec,
        team=task.team,
        config=algorithms.configuration(algorithm, task.hyperparameters).resolved(len(spec.agents)),
        seed=task.seed,
        round=task.round,
        batch=batch.join(spec, read(blobs, task.trajectories), task.units),
        tensors=read(blobs, task.state + task.tensors),
    )
    code = algorithms.implementation(algorithm)
    made, figures = stages.run(algorithm, code, context, task.stages, task.groups)
    policies, learner, passing = _sorted_out(made, algorithm.parts)
    objects: Objects = [("policies", policies)] if policies else []
    if task.publish_tensors:
        objects.append(("tensors", passing))
    return [*objects, ("learner", learner)], LearnReply(figures=figures)


def _sorted_out(tensors: Tensors, parts: tuple[str, ...]) -> tuple[Tensors, Tensors, Tensors]:
    """What actors read, what only learners need from round to round, and what serves this round only."""
    policies, learner, passing = Tensors(), Tensors(), Tensors()
    for name, array in tensors.items():
        part = name.split("/", 1)[0]
        home = policies if part == "policy" else learner if part in parts else passing
        home[name] = array
    return policies, learner, passing
