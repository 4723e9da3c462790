"""The contract of every host of resources, for any behaviour of a resource."""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urljoin

import pytest
from resource_hosts import APART, HOSTS, asking, in_processes

from marless.functions.resources.kept_answers import KeptAnswer, keep_answer
from marless.functions.resources.port import ResourceCall, ResourceFault
from marless.functions.resources.settings import Resource
from marless.infra.local.file_storage import FileStorage

PYTHON = sys.executable
EVERYWHERE = {**HOSTS, **APART}


@pytest.fixture(params=EVERYWHERE)
def call(request, tmp_path, shell):
    """Asks a resource with these settings one batch, as the task `asked_by` of a run."""
    shell.export(CALLS=str(tmp_path / "calls"))

    def ask(questions, asked_by="run/000000/sample/0", name="judge", **settings):
        resources = {name: Resource(**settings)}
        with EVERYWHERE[request.param](resources, tmp_path / "objects") as host:
            return asking(resources, tmp_path / "objects", host, asked_by).call(name, questions)

    return ask


@pytest.fixture
def calls(tmp_path):
    path = tmp_path / "calls"
    return lambda: path.read_text().splitlines() if path.exists() else []


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0

    def log_message(self, *arguments):
        pass

    def do_POST(self):
        question = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).asked += 1
        getattr(self, self.path.strip("/"))(question)

    def answer(self, body, status=200, length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    echoes = answer

    def limits(self, question):
        if self.asked % 3:
            self.answer(b"", 429, Retry_After="0")
        else:
            self.answer(question)

    def is_always_busy(self, question):
        self.answer(b"", 503)

    def hangs(self, question):
        time.sleep(3)
        self.close_connection = True

    def drips(self, question):
        self.answer(b"", length=100)
        for _ in range(30):
            self.wfile.write(b"x")
            time.sleep(0.1)

    def lies(self, question):
        self.answer(question, length=1000)
        self.close_connection = True

    def floods(self, question):
        self.answer(bytes(1 << 20), length=1 << 30)
        for _ in range(1023):
            self.wfile.write(bytes(1 << 20))

    def refuses(self, question):
        self.answer(b"no", 403)

    def tells_headers(self, question):
        self.answer(f"{self.headers.get('Authorization')} {self.headers.get('Idempotency-Key')}".encode())


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that has had enough closes the connection."""


@pytest.fixture(scope="module")
def service():
    with Server(("127.0.0.1", 0), Service) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_answers_come_in_the_order_of_the_questions(call):
    assert call([b"a", b"", b"abc", b"ab"], serve="judges:length", slots=2) == [b"1", b"0", b"3", b"2"]


def test_no_question_is_answered_by_nothing(call):
    assert call([], serve="judges:length") == []


def test_a_function_is_told_its_cores(call):
    assert call([b""], serve="judges:cores") == [b"1"]


@pytest.mark.parametrize(
    ("serve", "cause"),
    [
        ("judges:raises", "ValueError: no idea"),
        ("judges:text", "it answered str, not bytes"),
        ("judges:gigabyte", "its answer has 1,073,741,824 bytes, more than 16 MiB"),
        ("judges:gone", "serve = 'judges:gone': AttributeError: module 'judges' has no attribute 'gone'"),
        ("no_such_module:f", "serve = 'no_such_module:f': ModuleNotFoundError: No module named 'no_such_module'"),
        ("subprocess:check_output", "serve = 'subprocess:check_output': 'subprocess' belongs to Python's own library"),
        ("judges:asks", "ResourceFault: resource 'judge': a resource cannot ask a resource"),
    ],
)
def test_function_without_answer_is_fault_of_one_line(call, serve, cause):
    with pytest.raises(ResourceFault) as error:
        call([b"good"], serve=serve, attempts=2)
    assert str(error.value).startswith(f"resource 'judge': {cause}")
    assert str(error.value).endswith("(2 attempts)")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("where", APART)
@pytest.mark.parametrize(
    ("serve", "cause"), [("judges:hangs", "no answer within 0.5 s"), ("judges:dies", "exit status 7")]
)
def test_hanging_or_dying_function_is_one_line_fault(tmp_path, where, serve, cause):
    limit = 0.5 if "0.5 s" in cause else 20.0
    resources = {"judge": Resource(serve=serve, attempts=2, timeout_s=limit), "other": Resource(serve="judges:length")}
    with APART[where](resources, tmp_path / "objects") as host:
        task = asking(resources, tmp_path / "objects", host)
        with pytest.raises(ResourceFault, match=f"^resource 'judge': {cause}.*[(]2 attempts[)]$"):
            task.call("judge", [b"question"])
        assert task.call("other", [b"abc"]) == [b"3"]


def test_batch_is_served_by_all_slots(tmp_path, shell):
    """Eight questions of a quarter of a second each, four at once."""
    shell.export(CALLS=str(tmp_path / "calls"))
    resources = {"judge": Resource(serve="judges:slow", slots=4, timeout_s=5.0)}
    with in_processes(resources, tmp_path / "objects") as host:
        since = time.monotonic()
        outcomes = host.ask("judge", [ResourceCall(b"0.25")] * 8)
    assert [outcome.answer for outcome in outcomes] == [b"0.25"] * 8
    assert {outcome.slot for outcome in outcomes} == {0, 1, 2, 3}
    assert time.monotonic() - since >= 0.5


def test_an_action_is_tried_again(call, calls):
    assert call([b"when?"], serve="judges:raises_twice") == [b"now"]
    assert len(calls()) == 3


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (f"{PYTHON} -c 'import time; time.sleep(60)'", "no answer within 0.5 s"),
        (f"{PYTHON} -c 'raise SystemExit(3)'", "it has ended: exit status 3"),
        (f"{PYTHON} -c 'import os; os.kill(os.getpid(), 9)'", "it has ended: killed by SIGKILL"),
        (f"""{PYTHON} -c 'while True: print("x" * 100_000)'""", "its answer has more than 16 MiB"),
        ("no-such-engine --fast", "command 'no-such-engine' cannot be started: No such file or directory"),
    ],
)
def test_program_without_answer_is_fault_of_one_line(call, command, cause):
    limit = 0.5 if "sleep" in command else 20.0
    with pytest.raises(ResourceFault, match=f"^resource 'judge': {cause}(; .*)?$"):
        call([b"question"], command=command, until="end", attempts=1, timeout_s=limit)


def test_a_program_answers_with_a_line(call):
    assert call([b"one", b"two\n", b"three"], command="cat") == [b"one", b"two", b"three"]


def test_program_answers_up_to_its_end_line(call):
    code = "import sys\nfor line in sys.stdin: print('info', line, end=''); print('bestmove e4')"
    settings = {"command": f'{PYTHON} -u -c "{code}"', "until": "bestmove"}
    assert call([b"a", b"b"], **settings) == [b"info a\nbestmove e4", b"info b\nbestmove e4"]


def test_twice_given_answer_is_fault_of_one_line(call):
    code = "import sys\nfor line in sys.stdin: print(line + line, end='')"
    with pytest.raises(
        ResourceFault, match=r"^resource 'judge': it printed more than its answer, which ends with one line"
    ):
        call([b"a", b"b"], command=f'{PYTHON} -u -c "{code}"', attempts=1)


def test_question_that_fills_both_pipes_is_answered(call):
    question = b"x" * 5_000_000
    assert call([question], command="cat") == [question]


@pytest.mark.parametrize("path", ["echoes", "limits"])
def test_a_service_answers_even_if_it_limits(call, service, path):
    assert call([b"a", b"b"], http=f"{service}/{path}") == [b"a", b"b"]


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("is_always_busy", "503 Service Unavailable( for|, then no answer within) 1.5 s"),
        ("hangs", "no answer within 0.5 s"),
        ("drips", "no answer within 0.5 s"),
        ("lies", r"127\.0\.0\.1:[0-9]+: its answers ended early( for|, then no answer within) 1.5 s"),
        ("floods", "its answer has more than 16 MiB"),
        ("refuses", "403 Forbidden"),
        ("http://127.0.0.1:1/", "127.0.0.1:1: Connection refused( for|, then no answer within) 0.5 s"),
    ],
)
def test_service_without_answer_is_fault_of_one_line(call, service, path, cause):
    limit = 0.5 if "0.5 s" in cause else 1.5 if "1.5 s" in cause else 20.0
    with pytest.raises(ResourceFault, match=f"^resource 'judge': {cause}(; .*)?$"):
        call([b"question"], http=urljoin(f"{service}/", path), attempts=1, timeout_s=limit)


def test_service_receives_token_and_key_of_cached_question(call, service, shell):
    shell.export(MARLESS_RESOURCE_GRADER_TOKEN="a-secret-token")
    (kept,) = call([b"question"], name="grader", http=f"{service}/tells_headers", keep=True)
    token, key = kept.decode().rsplit(" ", 1)
    assert token == "Bearer a-secret-token"
    assert len(bytes.fromhex(key)) == 32
    (once,) = call([b"question"], http=f"{service}/tells_headers")
    assert once == b"None None"


@pytest.mark.parametrize("token", ["a-secret-token\r", "a-secret-töken"])
def test_token_unfit_for_headers_is_hidden_in_fault(call, service, shell, token):
    shell.export(MARLESS_RESOURCE_GRADER_TOKEN=token)
    with pytest.raises(ResourceFault, match="MARLESS_RESOURCE_GRADER_TOKEN holds what no header can") as fault:
        call([b"question"], name="grader", http=f"{service}/tells_headers?token")
    assert "secret" not in str(fault.value)


def test_cached_question_is_asked_once_by_any_asker(call, calls):
    batch = [b"a", b"b", b"a"]
    first = call(batch, serve="judges:at_random", keep=True)
    assert first[0] == first[2]
    assert call(batch, asked_by="run/000001/sample/0", serve="judges:at_random", keep=True, slots=2) == first
    assert sorted(calls()) == ["b'a'", "b'b'"]


@pytest.mark.parametrize("where", EVERYWHERE)
def test_waiting_for_answer_of_other_task_costs_nothing(tmp_path, shell, where):
    """Both ask the host, as tasks do that find no answer at first."""
    shell.export(CALLS=str(tmp_path / "calls"))
    resources = {"judge": Resource(serve="judges:at_random", keep=True)}
    with EVERYWHERE[where](resources, tmp_path / "objects") as host:
        (earlier,) = host.ask("judge", [ResourceCall(b"a", "0" * 64, "run/000000/sample/0")])
        stored = KeptAnswer(b"7", "run/000000/sample/9", 5.0)
        keep_answer(FileStorage(tmp_path / "objects"), "1" * 64, stored)
        (own, other) = host.ask("judge", [ResourceCall(b"a", digit * 64, "run/000000/sample/0") for digit in "01"])
    assert (own.answer, own.paid, own.attempts) == (earlier.answer, True, 1)
    assert (own.puts, own.gets) == (earlier.puts, earlier.gets)
    assert (other.answer, other.paid, other.attempts, other.puts) == (b"7", False, 0, 0)


def test_without_keep_every_question_is_asked(call, calls):
    call([b"a", b"b", b"a"], serve="judges:counted")
    assert sorted(calls()) == ["b'a'", "b'a'", "b'b'"]


def test_same_question_to_other_resource_is_different(call, calls):
    call([b"a"], serve="judges:counted", keep=True)
    call([b"a"], serve="judges:counted", keep=True, slots=4, timeout_s=9.0)
    call([b"a"], name="grader", serve="judges:counted", keep=True)
    assert len(calls()) == 2
