"""Lambda's invocation API: WSGI middleware that answers the data plane and forwards all other requests.

Paths, headers and errors follow the service's API model (API_Invoke, API_GetAccountSettings). The wrapped application
manages the functions.
"""

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from werkzeug.wrappers import Request, Response

from aws_emulator.encoding import to_json
from aws_emulator.lambda_service.invocation_result import Refused, invalid, too_large
from aws_emulator.lambda_service.lambdas import LONGEST_EVENT, LONGEST_REQUEST, Lambdas, Result

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

_INVOCATIONS = re.compile(r"/2015-03-31/functions/(?P<name>[^/]+)/invocations/?")
_FUNCTION = re.compile(r"/2015-03-31/functions/(?P<name>[^/]+)/?")
_SETTINGS = re.compile(r"/2016-08-19/account-settings/?")
_PIECE = 1 << 16


class LambdaApi:
    """Answers invocations from `lambdas`. `app` gets all other requests."""

    def __init__(self, app: "WSGIApplication", lambdas: Lambdas) -> None:
        self._app, self._lambdas = app, lambdas

    def __call__(self, environ: dict[str, Any], start_response: "StartResponse") -> Iterable[bytes]:
        answer = self._route(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        try:
            if answer is None:
                self._forget_version(Request(environ))
                return self._app(environ, start_response)
            response = answer(Request(environ))
        except Refused as refusal:
            response = _refusal(refusal)
        return response(environ, start_response)

    def _route(self, method: str, path: str) -> Callable[[Request], Response] | None:
        invocation = _INVOCATIONS.fullmatch(path)
        if method == "POST" and invocation:
            return lambda request: self._invoke(request, invocation["name"])
        if method == "GET" and _SETTINGS.fullmatch(path):
            return self._settings
        return None

    def _forget_version(self, request: Request) -> None:
        """A version that the application deletes is not invoked any more."""
        function, qualifier = _FUNCTION.fullmatch(request.path), request.args.get("Qualifier")
        if request.method == "DELETE" and function and qualifier:
            self._lambdas.remove_version(function["name"].rpartition(":")[2], qualifier)

    def _invoke(self, request: Request, name: str) -> Response:
        kind = request.headers.get("X-Amz-Invocation-Type", "RequestResponse")
        qualifier = request.args.get("Qualifier")
        trace = request.headers.get("X-Amzn-Trace-Id")
        payload = _body(request, kind, LONGEST_EVENT if kind == "Event" else LONGEST_REQUEST)
        if kind == "RequestResponse":
            result = self._lambdas.invoke(name, qualifier, payload, trace)
            return _answer(result, with_log=request.headers.get("X-Amz-Log-Type") == "Tail")
        if kind == "Event":
            return _answer(self._lambdas.submit(name, qualifier, payload, trace))
        if kind == "DryRun":
            return _answer(self._lambdas.check(name, qualifier))
        raise invalid(f"{kind[:100]} is not an invocation type")

    def _settings(self, request: Request) -> Response:
        return _json(200, self._lambdas.account_settings())


def _body(request: Request, kind: str, limit: int) -> bytes:
    """The payload. Raises `Refused` for an oversized one, after reading it so that the connection stays usable."""
    length = request.content_length or 0
    if length <= limit:
        return request.get_data(cache=False)
    while request.stream.read(_PIECE):
        pass
    raise too_large(length, limit, kind)


def _answer(result: Result, with_log: bool = False) -> Response:
    headers = {
        "x-amzn-RequestId": result.request_id,
        "X-Amz-Executed-Version": result.version,
        "X-Amzn-Trace-Id": result.trace,
    }
    if result.is_error:
        headers["X-Amz-Function-Error"] = "Unhandled"
    if with_log:
        headers["X-Amz-Log-Result"] = base64.b64encode(result.log_tail).decode()
    return Response(result.payload, result.status, headers, content_type="application/json")


def _refusal(refusal: Refused) -> Response:
    response = _json(refusal.status, refusal.body)
    response.headers["x-amzn-ErrorType"] = refusal.code
    return response


def _json(status: int, members: Mapping[str, Any]) -> Response:
    return Response(to_json(members), status, content_type="application/json")
