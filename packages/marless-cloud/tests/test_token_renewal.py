"""A changed token of a judging service is read again without a deployment."""

import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from marless.functions.encoding import from_json, to_json
from marless.functions.resources.port import ResourceCall
from marless.functions.resources.settings import Resource
from marless.infra.aws.resource_settings import OUTCOMES, SERVES, CallEvent, OwnResource

NAME = "/marless/renewed/judge"
EVENT = from_json(to_json(CallEvent(ResourceCall(b"question"))), dict)


class Judge(BaseHTTPRequestHandler):
    """A service that answers with the token of the question."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Authorization"].encode())


def test_a_changed_token_is_read_after_five_minutes(operator, shell):
    key, secret, _ = operator.credentials
    shell.export(AWS_ENDPOINT_URL=operator.endpoint, AWS_DEFAULT_REGION=operator.region, NO_PROXY="*")
    shell.export(AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret, MARLESS_RESOURCE_JUDGE_TOKEN="")
    with HTTPServer(("127.0.0.1", 0), Judge) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        own = OwnResource("judge", Resource(http=f"http://127.0.0.1:{server.server_port}/grade"), NAME)
        shell.export(MARLESS_BUCKET="b", MARLESS_TABLE="t", MARLESS_TENANT="renewed", **{SERVES: to_json(own).decode()})
        from marless.infra.entry.resource import ResourceFunction  # its handler needs these variables

        times, ssm, read = [], operator.client("ssm"), []
        function = ResourceFunction(os.environ, clock=lambda: times[-1])
        for time, token in ((0.0, "first"), (299.0, "second"), (301.0, "second"), (602.0, ""), (603.0, "third")):
            times.append(time)
            ssm.put_parameter(Name=NAME, Value=f"{token}-token", Type="SecureString", Overwrite=True)
            if not token:
                ssm.delete_parameter(Name=NAME)
            outcome = OUTCOMES.decode(to_json(function(EVENT, None)))
            read.append(outcome.answer.decode() or outcome.error[: 23 + len(NAME)])
        server.shutdown()
    first, second, third = (f"Bearer {token}-token" for token in ("first", "second", "third"))
    assert read == [first, first, second, f"cannot read the token {NAME}:", third]
