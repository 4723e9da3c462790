"""IAM authorization: WSGI middleware that checks every request against the policies of its signer.

The access key identifies a role session. The role's policies, the session policy and the bucket policy are evaluated
together (IAM user guide, "Policy evaluation logic"). AssumeRole also needs the role's trust policy to allow the caller.
A role's request is refused if it matches no known action. Any request is refused if a matching statement is unreadable.
A deletion of several objects is refused as a whole, where S3 would refuse only some of them.

The operator's key belongs to the account's administrator. Only bucket policies and trust policies limit the
administrator. Signatures are not verified. A session is authenticated by its secret token. Presigned URLs and service
control policies are not emulated.

An emulated account lacks TLS, so every request counts as sent over TLS. In tests the header
`X-Emulated-Secure-Transport: false` changes that.
"""

import hmac
import logging
import secrets
import string
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from aws_emulator.iam.conditions import Context
from aws_emulator.iam.denials import Denial, deny
from aws_emulator.iam.policies import Document, Policy, ServiceAction, Verdict, judge, read
from aws_emulator.iam.requests import Account, Signer, service_actions, signer
from aws_emulator.iam.role_policies import Rules
from aws_emulator.iam.s3_actions import missing
from aws_emulator.wsgi import App, Environ, Start, body, reply

# The key in a request's environment for the judge of actions that services perform in a role's name.
JUDGE = "emulated.judge"

_log = logging.getLogger(__name__)

_LETTERS = string.ascii_uppercase + string.digits
_PLAIN_HTTP = "HTTP_X_EMULATED_SECURE_TRANSPORT"
# Paths of moto's management API and instance metadata, closed to roles for every signing service.
_CLOSED = ("/moto-api", "/latest/", "/favicon.ico")
# API_AssumeRole, DurationSeconds.
_SESSION_S, _LEAST_SESSION_S, _LONGEST_SESSION_S = 3600, 900, 43_200
_BAD_DURATION = f"DurationSeconds must be from {_LEAST_SESSION_S} to {_LONGEST_SESSION_S}"


class UnknownRole(LookupError):
    """The account has no such role."""


class Credentials(NamedTuple):
    """An access key with its secret and session token."""

    key: str
    secret: str
    token: str


@dataclass(frozen=True)
class _Caller:
    """The identity of an access key. `names` are its names in policies, the one for error messages last.

    `role` is None for the operator. `session` is the session policy, if there is one.
    """

    names: tuple[str, ...]
    context_keys: Mapping[str, Sequence[str]]
    role: str | None = None
    session: Policy | None = None
    token: str = ""
    expires: float = float("inf")


class IamAuthorization:
    """Forwards the requests that `rules` allow to `app`, thread-safe."""

    def __init__(self, app: App, operator_key: str, rules: Rules, account: str = "123456789012") -> None:
        self._app, self._operator_key, self._rules = app, operator_key, rules
        self._account = Account(account, rules.partition_keys)
        self._everybody = (f"arn:aws:iam::{account}:root", account)
        arn = f"arn:aws:iam::{account}:user/operator"
        self._operator = _Caller((arn,), {"aws:principalarn": (arn,), "aws:principalaccount": (account,)})
        self._sessions: dict[str, _Caller] = {}

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        by = signer(environ)
        if by is None:
            return deny(environ, start, "", Denial.UNSIGNED)
        caller = self._caller(by, environ)
        if isinstance(caller, Denial):
            return deny(environ, start, by.service, caller)
        actions = None if environ["PATH_INFO"].startswith(_CLOSED) else service_actions(environ, by, self._account)
        refusal = self._refusal(environ, by, caller, actions)
        if refusal:
            _log.info("refused: %s", refusal)
            return deny(environ, start, by.service, Denial.DENIED, refusal)
        if by.service == "sts" and actions is not None:
            return self._of_sts(environ, start, caller)
        if actions and actions[0].action == "s3:GetObject" and caller.role is not None:
            return self._get(environ, start, by, caller, actions[0])
        if caller.role is not None:
            environ[JUDGE] = partial(self._judge, environ, by, caller)
        return self._app(environ, start)

    def knows(self, environ: Environ) -> bool:
        """Return whether the head of a request names a key that is valid now. Its body is not looked at."""
        by = signer(environ)
        return by is not None and isinstance(self._caller(by, environ), _Caller)

    def _caller(self, by: Signer, environ: Environ) -> "_Caller | Denial":
        caller = self._operator if by.key == self._operator_key else self._sessions.get(by.key)
        if caller is None or not _same(caller.token, environ.get("HTTP_X_AMZ_SECURITY_TOKEN", "")):
            return Denial.UNKNOWN_KEY
        return Denial.EXPIRED if time.monotonic() >= caller.expires else caller

    def _judge(
        self, environ: Environ, by: Signer, caller: _Caller, action: str, resource: str, context: Context
    ) -> str:
        """The reason why the caller may not perform an action that a service performs in its name, or ''."""
        return self._refusal(environ, by, caller, [ServiceAction(action, resource, context)])

    def issue(
        self,
        role: str,
        session: str,
        policy: Document | str | None = None,
        tags: Mapping[str, str] | None = None,
        duration_s: float = float("inf"),
        function: str | None = None,
    ) -> Credentials:
        """Issues credentials for a session of the role with the ARN `role`, as AssumeRole does.

        `policy` is the session policy, which can only restrict the role's permissions. `function` is the ARN of the
        function that Lambda makes the session for. Raises `UnknownRole`.
        """
        if not self._rules.has_role(role):
            raise UnknownRole(role)
        credentials = Credentials(f"ASIA{_random(16)}", secrets.token_urlsafe(30), secrets.token_urlsafe(120))
        name, number = role.rpartition("/")[2], self._account.number
        context_keys = {
            "aws:principalarn": (role,),
            "aws:principalaccount": (number,),
            "aws:principaltype": ("AssumedRole",),
            "aws:userid": (f"AROA{name.upper()}:{session}",),
            **{f"aws:principaltag/{key.lower()}": (value,) for key, value in (tags or {}).items()},
            **({"lambda:sourcefunctionarn": (function,)} if function else {}),
        }
        self._sessions[credentials.key] = _Caller(
            names=(role, f"arn:aws:sts::{number}:assumed-role/{name}/{session}"),
            context_keys=context_keys,
            role=role,
            session=None if policy is None else read(policy),
            token=credentials.token,
            expires=time.monotonic() + duration_s,
        )
        return credentials

    def _refusal(self, environ: Environ, by: Signer, caller: _Caller, actions: list[ServiceAction] | None) -> str:
        """AWS's error message for the first action that the caller may not perform, or ''."""
        if actions is None:
            if caller.role is None:
                return ""
            what = environ.get("HTTP_X_AMZ_TARGET") or f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
            return f"User: {caller.names[-1]} is not authorized to perform: {by.service}, {what}, an unknown action"
        for action in actions:
            verdict = self._verdict(environ, by, caller, action)
            if verdict.decision != "allow":
                why = verdict.why or f"because no identity-based policy allows the {action.action} action"
                return (
                    f"User: {caller.names[-1]} is not authorized to perform: {action.action} "
                    f'on resource: "{action.resource}" {why}'
                )
        return ""

    def _verdict(self, environ: Environ, by: Signer, caller: _Caller, action: ServiceAction) -> Verdict:
        """The verdict of all policies: a deny is final. Boundary and session policy must also allow the action."""
        context = {
            **caller.context_keys,
            "aws:requestedregion": (by.region,),
            "aws:securetransport": ("false" if environ.get(_PLAIN_HTTP, "").lower() == "false" else "true",),
            **action.context,
        }
        verdict = Verdict("allow") if caller.role is None else judge(self._rules.of_role(caller.role), action, context)
        if verdict.decision == "deny":
            return verdict
        if action.action == "sts:AssumeRole" and verdict.decision == "allow":
            verdict = self._trust_verdict(caller, action, context)
        if action.action.startswith("s3:"):
            bucket = action.resource.removeprefix("arn:aws:s3:::").partition("/")[0]
            bucket_verdict = judge(self._rules.of_bucket(bucket), action, context, caller.names, self._everybody)
            if bucket_verdict.decision == "deny":
                return Verdict("deny", f"{bucket_verdict.why} in a resource-based policy")
            verdict = bucket_verdict if verdict.decision == "nothing" else verdict
            return self._within_boundaries(
                caller, action, context, verdict, self._names_session(bucket, caller, action, context)
            )
        return self._within_boundaries(caller, action, context, verdict)

    def _names_session(self, bucket: str, caller: _Caller, action: ServiceAction, context: Context) -> bool:
        """Return whether the bucket policy allows the action to the session by its own ARN, not only to its role or to
        all."""
        if caller.role is None:
            return False
        policies = self._rules.of_bucket(bucket)
        by_name, by_role = (judge(policies, action, context, names) for names in (caller.names, (caller.role,)))
        return by_name.decision == "allow" != by_role.decision

    def _within_boundaries(
        self, caller: _Caller, action: ServiceAction, context: Context, verdict: Verdict, to_session: bool = False
    ) -> Verdict:
        """`verdict`, if the role's permissions boundary and the session policy allow the action, too.

        Actions that a resource's policy allows `to_session` itself are limited only by an explicit deny. Source: IAM
        user guide, "Policy evaluation for requests within a single account".
        """
        boundary = None if caller.role is None else self._rules.of_boundary(caller.role)
        for name, policy in (("permissions boundary", boundary), ("session policy", caller.session)):
            bound = verdict if policy is None else judge([policy], action, context)
            if policy is not None and bound.decision == "nothing" and not to_session:
                return Verdict("nothing", f"because no {name} allows the {action.action} action")
            if bound.decision == "deny":
                return bound
        return verdict

    def _trust_verdict(self, caller: _Caller, action: ServiceAction, context: Context) -> Verdict:
        """The verdict of the role's trust policy on the caller. It also applies to administrators."""
        names = (*caller.names, *self._everybody)
        decision = judge(self._rules.of_trust(action.resource), action, context, names)
        return (
            decision
            if decision.why
            else decision._replace(why=f"because no resource-based policy allows the {action.action} action")
        )

    def _get(
        self, environ: Environ, start: Start, by: Signer, caller: _Caller, action: ServiceAction
    ) -> Iterable[bytes]:
        """Answers a role's GetObject: a missing object is a 403 for callers that may not list the bucket."""
        hidden = False

        def answer(status: str, headers: Any, exc_info: Any = None) -> Any:
            nonlocal hidden
            hidden = (
                status.startswith("404") and self._verdict(environ, by, caller, missing(action)).decision != "allow"
            )
            # moto returns its response and writes nothing through this callable.
            return (lambda _: None) if hidden else start(status, headers, exc_info)

        response = self._app(environ, answer)
        if not hidden:
            return response
        _drop(response)
        return deny(environ, start, by.service, Denial.DENIED, self._refusal(environ, by, caller, [missing(action)]))

    def _of_sts(self, environ: Environ, start: Start, caller: _Caller) -> Iterable[bytes]:
        fields = dict(parse_qsl(body(environ).decode("latin-1")))
        if fields["Action"] == "GetCallerIdentity":
            arn, user = caller.names[-1], caller.context_keys.get("aws:userid", ("AIDAOPERATOR",))[0]
            return _sts_answer(
                start, "GetCallerIdentity", {"Arn": arn, "UserId": user, "Account": self._account.number}
            )
        duration, session = fields.get("DurationSeconds", str(_SESSION_S)), fields.get("RoleSessionName", "")
        if not duration.isdecimal() or not _LEAST_SESSION_S <= int(duration) <= _LONGEST_SESSION_S:
            text = _xml({"ErrorResponse": {"Error": {"Code": "ValidationError", "Message": _BAD_DURATION}}})
            return reply(start, "400 Bad Request", text.encode(), "text/xml")
        duration_s = int(duration)
        tags = {
            fields[f"Tags.member.{number}.Key"]: fields.get(f"Tags.member.{number}.Value", "")
            for number in range(1, 51)
            if f"Tags.member.{number}.Key" in fields
        }
        session_credentials = self.issue(fields["RoleArn"], session, fields.get("Policy"), tags, duration_s)
        until = (datetime.now(UTC) + timedelta(seconds=duration_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
        credentials = {
            "AccessKeyId": session_credentials.key,
            "SecretAccessKey": session_credentials.secret,
            "SessionToken": session_credentials.token,
            "Expiration": until,
        }
        return _sts_answer(start, "AssumeRole", {"Credentials": {**credentials, "Expiration": until}})


def _drop(answer: Iterable[bytes]) -> None:
    close = getattr(answer, "close", None)
    if close:
        close()


def _random(letters: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(letters))


def _same(token: str, other: str) -> bool:
    return hmac.compare_digest(token.encode(), other.encode())


def _xml(fields: Mapping[str, Any]) -> str:
    return "".join(
        f"<{name}>{_xml(value) if isinstance(value, Mapping) else escape(value)}</{name}>"
        for name, value in fields.items()
    )


def _sts_answer(start: Start, action: str, fields: Mapping[str, Any]) -> Iterable[bytes]:
    """Answers in the form of STS's query API."""
    inner = f"<{action}Result>{_xml(fields)}</{action}Result>"
    text = f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{inner}</{action}Response>'
    return reply(start, "200 OK", text.encode(), "text/xml")
