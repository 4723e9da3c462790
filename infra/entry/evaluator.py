"""The evaluator as a Lambda function."""

import os

from functions.evaluator.handler import handle
from infra.entry.tracing import traced
from infra.entry.worker import Worker

handler = traced(Worker(handle), os.environ)
