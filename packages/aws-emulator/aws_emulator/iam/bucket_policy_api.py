"""S3's API of bucket policies: WSGI middleware in front of moto, which ignores the conditions of a `Deny`."""

from collections.abc import Iterable
from urllib.parse import parse_qs

from aws_emulator.iam.role_policies import Rules
from aws_emulator.wsgi import App, Environ, Start, body, reply, service

_ERROR = "<Error><Code>{}</Code><Message>{}</Message></Error>"


class BucketPolicyApi:
    """Answers `PutBucketPolicy`, `GetBucketPolicy` and `DeleteBucketPolicy`, and forwards other requests to `app`."""

    def __init__(self, app: App, rules: Rules) -> None:
        self._app, self._rules = app, rules
        self._documents: dict[str, bytes] = {}

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        bucket, method = environ["PATH_INFO"].strip("/"), environ["REQUEST_METHOD"]
        if service(environ) != "s3" or not bucket or "/" in bucket:
            return self._app(environ, start)
        if "policy" in parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True):
            return self._answer(method, bucket, environ, start)
        if method == "DELETE":  # with its bucket a policy goes
            self._drop(bucket)
        return self._app(environ, start)

    def _answer(self, method: str, bucket: str, environ: Environ, start: Start) -> Iterable[bytes]:
        document = self._documents.get(bucket)
        if method == "PUT":
            document = body(environ)
            try:
                self._rules.put_bucket_policy(bucket, document.decode())
            except ValueError as error:
                return reply(start, "400 Bad Request", _ERROR.format("MalformedPolicy", error).encode(), "text/xml")
            self._documents[bucket] = document
        elif method == "DELETE":
            self._drop(bucket)
        elif document is None:
            missing = _ERROR.format("NoSuchBucketPolicy", "The bucket policy does not exist")
            return reply(start, "404 Not Found", missing.encode(), "text/xml")
        else:
            return reply(start, "200 OK", document)
        return reply(start, "204 No Content", b"")

    def _drop(self, bucket: str) -> None:
        if self._documents.pop(bucket, None) is not None:
            self._rules.drop_bucket_policy(bucket)
