"""The evaluator as a Lambda function."""

from functions.evaluator.handler import handle
from infra.entry.worker import Worker

handler = Worker(handle)
