"""The learner as a Lambda function."""

import os

from functions.learner.handler import handle
from infra.entry.instrumentation import instrument
from infra.entry.lambda_handler import Worker

handler = instrument(Worker(handle), os.environ)
