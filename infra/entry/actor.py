"""The actor as a Lambda function."""

import os

from functions.actor.handler import handle
from infra.entry.instrumentation import instrumented
from infra.entry.worker import Worker

handler = instrumented(Worker(handle), os.environ)
