"""A lab without a network: requests go to its application as a server would pass them on."""

import asyncio
import base64
import json
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from marless_server.pool.archives import ArchiveClaims
from marless_server.pool.driver import Board, Queue
from marless_server.serving import stored
from marless_server.store.owners import Owner
from marless_server.store.runs import Runs
from marless_server.web.api import PREFIX
from marless_server.web.app import application
from marless_server.web.resources import Lab

ATTACKS = tomllib.loads(Path(__file__).parents[1].joinpath("attacks.toml").read_text("utf-8"))
HOST = "127.0.0.1:8765"
SMALL = {
    "task": {"name": "toy/signal"}, "algorithm": {"hidden": [8]}, "actors": {"num_envs": 8}, "stop": {"rounds": 4},
    "evaluation": {"every": 2, "episodes": 4, "final_episodes": 4},
}  # fmt: skip


@dataclass
class Answer:
    status: int = 0
    headers: dict = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self):
        return json.loads(self.body)


class TestLab(ExitStack):
    """The owners are Ana and Ben. Nothing trains. `tokens` are by owner."""

    __test__ = False

    def __init__(self, folder):
        super().__init__()
        self.database, self.owners = self.enter_context(stored(folder))
        self.tokens = {}
        for name in ("ana", "ben"):
            self.owners.add(Owner(name=name))
            self.tokens[name] = self.owners.new_token(name)
        self.runs, self.board, claims = Runs(self.database), Board(slots=2, most=2), ArchiveClaims()
        queue = Queue(self.runs, self.owners, self.board)
        self.lab = Lab(self.owners, self.runs, queue, self.board, claims, folder / "runs")
        (folder / "runs").mkdir()
        self.app = application(self.lab, [HOST])

    def send(self, method, path, body=b"", headers=(), host=HOST, query="", kind="http", client="127.0.0.1"):
        """The answer to a request with exactly these headers and a host."""
        names = [(b"host", host.encode())] if host is not None else []
        pairs = [*names, *((name.lower().encode(), value.encode()) for name, value in headers)]
        scope = {
            "type": kind, "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
            "headers": pairs, "server": ("127.0.0.1", 8765), "client": (client, 5), "scheme": "http",
            "root_path": "", "http_version": "1.1",
        }  # fmt: skip
        answer, parts = Answer(), [body[start : start + 65536] for start in range(0, len(body), 65536)] or [b""]

        async def receive():
            await asyncio.sleep(0 if parts else 60)
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def pass_on(message):
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            elif message["type"] == "websocket.close":
                answer.status = message["code"]
            else:
                answer.body += message.get("body", b"")

        asyncio.run(self.app(scope, receive, pass_on))
        return answer

    def call(self, owner, method, path, body=None, headers=(), **more):
        """The answer to an owner's request below /api/v1."""
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        login = [("authorization", f"Bearer {self.tokens[owner]}"), ("content-type", "application/json")]
        login = [pair for pair in login if pair[0] not in dict(headers)]
        return self.send(method, f"{PREFIX}{path}", sent, [*login, *headers], **more)

    def submit(self, owner, **settings):
        """The id of a new run."""
        answer = self.call(owner, "POST", "/submissions", SMALL | settings)
        assert answer.status == 201, answer.body
        return answer.json["id"]


def logins(lab):
    """The headers of each kind of sender. The owner of the run is Ana."""
    basic = {name: base64.b64encode(f"me:{token}".encode()).decode() for name, token in lab.tokens.items()}
    texts = {
        "program": f"Bearer {lab.tokens['ana']}", "other": f"Bearer {lab.tokens['ben']}",
        "browser": f"Basic {basic['ana']}", "other browser": f"Basic {basic['ben']}",
    }  # fmt: skip
    return {name: [("authorization", text)] for name, text in texts.items()} | {"stranger": []}


def stamped(lab, text):
    """A body with the stamps of both owners' pages."""
    stamps = {name: lab.owners.stamps(token.split("-")[1])[0] for name, token in lab.tokens.items()}
    return text.replace("OWN", stamps["ana"]).replace("OTHER", stamps["ben"])
