"""The actor as a Lambda function."""

from functions.actor.handler import handle
from infra.entry.worker import Worker

handler = Worker(handle)
