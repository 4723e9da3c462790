"""A kind of function of another package as a Lambda function. The kind is the name of the service."""

import os
from importlib import import_module

from marless.functions.function_specs import KINDS
from marless.infra.entry.instrumentation import instrument
from marless.infra.entry.lambda_handler import Worker

handler = instrument(Worker(import_module(KINDS[os.environ["POWERTOOLS_SERVICE_NAME"]].module).handle), os.environ)
