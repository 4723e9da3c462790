"""moto's services by the name that their requests are signed with.

moto's own dispatch lists its folder on disk for every request; a lookup by signing name is faster.
"""

import threading
from collections.abc import Iterable

from moto.moto_server.werkzeug_app import create_backend_app

from infra.emulation.wsgi import App, Environ, Start, reply, service

# By signing name ("Service endpoints", API references), moto's names. Lambda's data plane, CloudFormation and
# STS are answered before a request comes here.
_SERVICES = {
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
}


class MotoServices:
    """Hands every request to its service; the first one for a service loads it."""

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
                self._apps[name] = self._apps.get(name) or create_backend_app(_SERVICES[name])  # type: ignore[arg-type]
        return self._apps[name]
