"""moto's services by signing name.

moto can determine a request's service itself, but searches its own folder on the disk for every request.
"""

import threading
from collections.abc import Iterable

from moto.dynamodb.models.table import Table
from moto.moto_server.werkzeug_app import create_backend_app

from aws_emulator.table_queries import query_partition
from aws_emulator.wsgi import App, Environ, Start, reply, service

# moto's service names by signing name ("Service endpoints", API references). Outer middleware answers the requests to
# Lambda's data plane, CloudFormation and STS.
_SERVICES = {
    "budgets": "budgets",
    "dynamodb": "dynamodb",
    "ecr": "ecr",
    "events": "events",
    "iam": "iam",
    "lambda": "lambda",
    "logs": "logs",
    "monitoring": "cloudwatch",
    "s3": "s3",
    "sns": "sns",
    "sqs": "sqs",
    "ssm": "ssm",
}

# Before the first table is made.
Table.query = query_partition  # type: ignore[assignment, method-assign]


class MotoServices:
    """Dispatches every request to its service. The first request to a service loads it."""

    def __init__(self) -> None:
        self._apps: dict[str, App] = {}
        self._loading = threading.Lock()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        name = service(environ)
        if name not in _SERVICES:
            text = b'{"message": "this service is not emulated"}'
            return reply(start, "501 Not Implemented", text)
        return self._app(name)(environ, start)

    def _app(self, name: str) -> App:
        if name not in self._apps:
            with self._loading:
                if name == "lambda":
                    _publish_versions_once()
                self._apps[name] = self._apps.get(name) or create_backend_app(_SERVICES[name])  # type: ignore[arg-type]
        return self._apps[name]


def _publish_versions_once() -> None:
    from moto.awslambda.models import LambdaStorage

    from aws_emulator.published_versions import publish_version

    LambdaStorage.publish_version = publish_version  # type: ignore[assignment]
