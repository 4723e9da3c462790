"""The evaluator as a Lambda function."""

import os

from functions.evaluator.handler import handle
from infra.entry.instrumentation import instrumented
from infra.entry.worker import Worker

handler = instrumented(Worker(handle), os.environ)
