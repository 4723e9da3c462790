"""The evaluator as a Lambda function."""

import os

from marless.functions.evaluator.handler import handle
from marless.infra.entry.instrumentation import instrument
from marless.infra.entry.lambda_handler import Worker

handler = instrument(Worker(handle), os.environ)
