"""Errors as JSON: problem details (RFC 9457), with the key that an error is about."""

import re
from http import HTTPStatus

from starlette.responses import Response

from marless.functions.encoding import to_json
from marless_server.admission import SOURCE
from marless_server.web.answers import ProblemDetails

TYPE = "application/problem+json"
# The beginning of "the submission: algorithm.lr: ...".
_KEY = re.compile(rf"(?:{SOURCE}: )?(?:there is no key )?(?P<key>[A-Za-z_][\w-]*(?:\.[\w-]+)*)(?::|;| =) ")


class Problem(Exception):
    """A request that is refused: its status, a line that says why, and the key or header that it is about."""

    def __init__(self, status: int, detail: str, key: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.key, self.headers = status, detail, key, headers or {}

    def response(self) -> Response:
        """Return the answer to the request."""
        title = HTTPStatus(self.status).phrase
        body = ProblemDetails(type="about:blank", title=title, status=self.status, detail=self.detail, key=self.key)
        return Response(to_json(body), self.status, self.headers, TYPE)


def of_settings(error: Exception, status: int = 422) -> Problem:
    """Return the problem of a submission, with the key that the line of the error begins with."""
    line = " ".join(str(error).split())
    match = _KEY.match(line)
    return Problem(status, line, match["key"] if match else "")
