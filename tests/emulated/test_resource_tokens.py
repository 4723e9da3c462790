"""A resource's token is a SecureString that its function alone reads."""

import hashlib
import json

from marless.functions.resources.port import ResourceCall
from marless.functions.resources.settings import Resource
from marless.infra.aws.resource_host import LambdaResources
from marless.infra.aws.resource_settings import AskableFunction
from marless.infra.deployment import deploy
from marless.infra.deployment.resource_functions import PARAMETER, TOKENS, to_parameter

TOKEN = "sesame-0123456789abcdef"
JUDGES = """
import hashlib, os
from marless.infra.aws.clients import Cloud

def own(question):
    token = os.environ["MARLESS_RESOURCE_OWN_TOKEN"]
    if question:
        raise ValueError(token)
    return hashlib.sha256(token.encode()).hexdigest().encode()

def other(question):
    return repr(Cloud.here().client("ssm").get_parameter(Name=question.decode(), WithDecryption=True)).encode()
"""
SERVED = {"own": "own", "other": "other", "plain": "own", "missing": "own"}
NAMES = {"own": "/marless/own", "plain": "/marless/plain", "missing": "/marless/missing"}


def test_a_token_is_read_by_its_resource_alone_and_written_nowhere(place):
    (place.home / "token_judges.py").write_text(JUDGES)
    for name, kind in {"own": "SecureString", "plain": "String"}.items():
        place.cloud.client("ssm").put_parameter(Name=NAMES[name], Value=TOKEN, Type=kind)
    resources = {name: Resource(serve=f"token_judges:{function}") for name, function in SERVED.items()}
    tokens = ",".join(f"{name}={parameter}" for name, parameter in NAMES.items())
    deploy(place.cloud, "tokens", {PARAMETER: to_parameter(resources), TOKENS: tokens})
    host = LambdaResources(
        place.cloud, {name: AskableFunction(f"marless-tokens_{name}:live", 1, 60, 1) for name in SERVED}
    )

    def ask(name, question=b""):
        return host.ask(name, [ResourceCall(question)])[0]

    assert ask("own").answer.decode() == hashlib.sha256(TOKEN.encode()).hexdigest()
    errors = {
        "plain": "the token /marless/plain is no SecureString",
        "missing": "cannot read the token /marless/missing",
    }
    assert {name: ask(name).error.startswith(text) for name, text in errors.items()} == dict.fromkeys(errors, True)
    assert "AccessDenied" in ask("other", b"/marless/own").error
    said = ask("own", b"tell").error
    assert "MARLESS_RESOURCE_OWN_TOKEN" in said and TOKEN not in said
    stack = place.cloud.client("cloudformation").describe_stacks(StackName="marless-tokens")
    described = place.cloud.client("lambda").list_functions(FunctionVersion="ALL")
    logs = place.cloud.client("logs").filter_log_events(logGroupName="/marless/marless-tokens/resource")
    assert TOKEN not in json.dumps([stack, described, logs["events"]], default=str)
