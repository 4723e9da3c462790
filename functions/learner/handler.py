"""The learner function: trajectories and the learner's state to new policies and a new state."""

from functions.algorithms import registry as algorithms
from functions.algorithms.base import Context
from functions.contract import InitialiseReply, InitialiseTask, LearnReply, LearnTask
from functions.learner import batch, stages
from functions.ports import Blobs
from functions.serving import Objects, Tensors, read, serve


def handle(body: bytes, blobs: Blobs) -> bytes:
    """Answers an encoded `InitialiseTask` or `LearnTask`."""
    return serve(body, blobs, {InitialiseTask: initialise, LearnTask: learn})


def initialise(task: InitialiseTask, blobs: Blobs) -> tuple[Objects, InitialiseReply]:
    """Draws the networks of round 0, each group's at an address of its own."""
    algorithm = algorithms.algorithm(task.algorithm)
    config = algorithms.configuration(algorithm, task.hyperparameters)
    code = algorithms.implementation(algorithm)
    tensors: Tensors = {}
    for group in sorted(set(task.team.groups)):
        tensors |= code.initialise(task.spec, task.team, config, task.seed, group)
    policies, learner, _ = _sorted_out(tensors, algorithm.parts)
    return [("policies", policies), ("learner", learner)], InitialiseReply()


def learn(task: LearnTask, blobs: Blobs) -> tuple[Objects, LearnReply]:
    """Runs the task's stages for its groups."""
    algorithm = algorithms.algorithm(task.algorithm)
    spec = task.spec
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
