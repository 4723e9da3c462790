"""The learner as a Lambda function."""

from functions.learner.handler import handle
from infra.entry.worker import Worker

handler = Worker(handle)
