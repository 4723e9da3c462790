"""Serves every task of a run by the code of three functions."""

from marless.functions.actor import handler as actor
from marless.functions.evaluator import handler as evaluator
from marless.functions.learner import handler as learner
from marless.functions.messages.actor import DescribeTask, SampleTask
from marless.functions.messages.evaluator import EvaluateTask
from marless.functions.messages.learner import InitialiseTask, LearnTask
from marless.functions.serving import serve

WORKS = {
    DescribeTask: actor.describe,
    SampleTask: actor.sample,
    InitialiseTask: learner.initialise,
    LearnTask: learner.learn,
    EvaluateTask: evaluator.evaluate,
}


def handle(body, blobs):
    """Answers an encoded request."""
    return serve(body, blobs, WORKS)
