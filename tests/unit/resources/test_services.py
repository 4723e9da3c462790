"""Services as resources: temporary faults are waited for, other faults cost an attempt, and proxies are used."""

import socket
import time
from email.message import Message
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from urllib.parse import urlsplit

import pytest
from faulty_service import FaultyService, grade
from loopback import serving
from resource_hosts import asking, in_a_pool, in_process, in_processes

from marless.functions.resources.attempts import CallBatch
from marless.functions.resources.call_meter import CallMeter
from marless.functions.resources.port import CallOutcome, ResourceCall, ResourceFault
from marless.functions.resources.serving.kinds.http import begin
from marless.functions.resources.serving.kinds.kind import AskLater, NoAnswer
from marless.functions.resources.serving.kinds.proxies import proxy_of
from marless.functions.resources.serving.kinds.retry_after import retry_after_s
from marless.functions.resources.settings import Resource

HOSTS = {"in process": in_process, "in processes": in_processes}
ALL_HOSTS = {**HOSTS, "in a pool": in_a_pool}
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


class Scripted(ThreadingHTTPServer):
    """Follows `steps` with its requests in order, and answers "ok" after them. Records the time of each request."""

    daemon_threads = True

    def __init__(self, *steps, port=0):
        super().__init__(("127.0.0.1", port), ScriptedHandler)
        self.steps, self.times, self.paths, self.sent, self.lock = list(steps), [], [], [], Lock()
        self.stopping = Event()
        self.address = f"http://127.0.0.1:{self.server_port}/"

    def handle_error(self, request, client_address):
        """A client has closed the connection."""


class ScriptedHandler(BaseHTTPRequestHandler):
    """A step is a status with headers. "drop" closes the connection, "late" answers after a moment, and "early" says
    before that two times that the answer will come."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.times.append(time.monotonic())
            self.server.paths.append(self.path)
            self.server.sent.append(dict(self.headers))
            step = self.server.steps.pop(0) if self.server.steps else (200, {})
        if step == "drop":
            self.close_connection = True
            return
        for status in (102, 103) if step == "early" else ():
            self.send_response_only(status)
            self.end_headers()
        if step in ("early", "late"):
            time.sleep(0.3)
        status, headers = step if isinstance(step, tuple) else (200, {})
        self.send_response(status)
        for name, value in {"Content-Length": "2", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"ok")

    def do_CONNECT(self):
        self.server.paths.append(self.path)
        self.server.sent.append(dict(self.headers))
        self.send_error(self.server.steps.pop(0) if self.server.steps else 403)

    def log_message(self, *words):
        pass


@pytest.fixture(autouse=True)
def no_proxies(shell):
    shell.unset(*PROXIES, *map(str.upper, PROXIES))


def answers(service, count=1, **settings):
    """Return the answers that a new slot receives to so many questions."""
    kind = begin("judge", Resource(http=service.address, **settings))
    try:
        return [kind.answer(ResourceCall(b"q"), 1) for _ in range(count)]
    finally:
        kind.close()


@pytest.mark.parametrize("status", [408, 425, 429, 502, 503, 504, 520, 524, 529])
def test_what_passes_is_waited_for_in_one_attempt(status):
    with serving(Scripted((status, {}), "drop", (status, {}))) as service:
        assert answers(service) == [b"ok"]
        assert len(service.times) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 500, 501, 301])
def test_permanent_refusal_ends_attempt_immediately(status):
    with serving(Scripted((status, {}))) as service:
        with pytest.raises(NoAnswer, match=rf"^{status} "):
            answers(service)
        assert len(service.times) == 1


def test_response_that_only_announces_answer_is_none():
    with serving(Scripted("early", "early")) as service:
        assert answers(service, 3) == [b"ok"] * 3
        assert len(service.times) == 3


def test_answer_longer_than_its_length_is_fault():
    step = (200, {"Content-Length": "1"})
    with serving(Scripted(step)) as service, pytest.raises(NoAnswer, match="longer than its Content-Length"):
        answers(service)


@pytest.mark.parametrize(
    "cut",
    [
        "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0",
        "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "Content-Length: 2",
    ],
)
def test_truncated_line_is_no_end_of_answer(cut):
    class Cutting(ScriptedHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(f"HTTP/1.1 200 OK\r\n{cut}".encode())
            self.close_connection = True

    with serving(Scripted()) as service:
        service.RequestHandlerClass = Cutting
        # The last attempt of a slow machine may reach the time-out before it reads the cut line.
        with pytest.raises(NoAnswer, match=r"its answers ended early( for|, then no answer within) 1 s"):
            answers(service, timeout_s=1)


def test_the_fault_before_the_time_out_is_named():
    class Hanging(ScriptedHandler):
        def do_POST(self):
            if self.server.attempts.append(1) or len(self.server.attempts) > 1:
                time.sleep(3)
            self.close_connection = True

    with serving(Scripted()) as service:
        service.attempts = []
        service.RequestHandlerClass = Hanging
        with pytest.raises(NoAnswer, match=r"(disconnected|closed|reset).*, then no answer within 2 s"):
            answers(service, timeout_s=2)


def test_restarting_service_is_waited_for():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    heard = []
    kind = begin("judge", Resource(http=f"http://127.0.0.1:{port}/"))
    asker = Thread(target=lambda: heard.append(kind.answer(ResourceCall(b"q"), 1)))
    asker.start()
    time.sleep(0.2)
    with serving(Scripted(port=port)):
        asker.join(60)
    kind.close()
    assert heard == [b"ok"]


def test_closed_kept_connection_is_replaced_immediately():
    with serving(Scripted((200, {}), "drop", (200, {}), "drop")) as service:
        assert answers(service, count=3, attempts=1) == [b"ok"] * 3
        assert len(service.times) == 5


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("2", 2), ("1.5", 1.5), (" 2 ", 2), (".5", 0.5), ("3.", 3), ("0", 0), ("-1", 0), ("soon", 0), ("", 0),
        ("1e3", 0),
        ("inf", 0), ("nan", 0), ("0x10", 0), ("1,5", 0), ("+2", 0), ("9" * 400, float("inf")),
        ("Sun, 06 Nov 1994 08:49:40 GMT", 3), ("Sun, 06 Nov 1994 08:49:40 -0000", 3),
        ("Sun, 06 Nov 1994 09:49:40 +0100", 3),
        ("Sunday, 06-Nov-94 08:49:40 GMT", 3), ("Sun Nov  6 08:49:40 1994", 3), ("Sun, 06 Nov 1994 08:49:30 GMT", 0),
        ("Mon, 01 Jan 1900 00:00:00 +2300", 0), ("Fri, 06 Nov 1994 99:99:99 GMT", 0),
    ],
)  # fmt: skip
def test_retry_time_is_read_in_every_form(said, seconds, shell):
    """Dates count from the service's clock, with any zone and clock here."""
    shell.export(TZ="America/New_York")
    time.tzset()
    headers = Message()
    headers["Retry-After"], headers["Date"] = said, "Sun, 06 Nov 1994 08:49:37 GMT"
    assert retry_after_s(headers) == seconds
    shell.unset("TZ")
    time.tzset()


def test_date_without_service_clock_uses_local_clock():
    headers = Message()
    headers["Retry-After"] = formatdate(time.time() + 3600, usegmt=True)
    assert 3500 < retry_after_s(headers) <= 3600


@pytest.mark.parametrize("status", [403, 429, 500, 503])
def test_slot_with_named_retry_time_asks_no_more(status):
    with serving(Scripted((status, {"Retry-After": "7.5"}))) as service:
        with pytest.raises(AskLater, match=rf"^{status} .*; it asks to be left alone for 7\.5 s$") as later:
            answers(service)
        assert (later.value.pause_s, len(service.times)) == (7.5, 1)


def test_reason_of_service_is_one_truncated_line(tmp_path):
    class Unkind(ScriptedHandler):
        def do_POST(self):
            self.wfile.write(
                b"HTTP/1.1 429 A\x0b\x0c" + b"A" * 1000 + b"\r\nRetry-After: 9999\r\nContent-Length: 0\r\n\r\n"
            )
            self.close_connection = True

    with serving(Scripted()) as service:
        service.RequestHandlerClass = Unkind
        with pytest.raises(ResourceFault) as fault:
            call("in process", service, tmp_path, [b"q"])
    assert "\n" not in str(fault.value) and len(str(fault.value)) < 500


def call(host, service, tmp_path, questions, **settings):
    """The answers of a task, and how many questions it paid."""
    resources, meter = {"judge": Resource(http=service.address, **settings)}, CallMeter()
    with HOSTS[host](resources, tmp_path / "objects") as served:
        heard = asking(resources, tmp_path / "objects", served, meter=meter).call("judge", questions)
    return heard, meter.use["judge"].count


@pytest.mark.parametrize("host", HOSTS)
def test_named_retry_time_pauses_all_slots(host, tmp_path):
    """The other slot's question is answered late, so that the pool knows the time before it asks again."""
    with serving(Scripted((429, {"Retry-After": "1"}), "late")) as service:
        questions = [b"%d" % number for number in range(6)]
        assert call(host, service, tmp_path, questions, slots=2) == ([b"ok"] * 6, 6)
    in_flight = 2 if host == "in processes" else 1
    assert min(service.times[in_flight:]) >= service.times[0] + 1.0


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("said", ["3600", "9" * 400, formatdate(time.time() + 1e9)], ids=["hour", "digits", "date"])
def test_retry_time_beyond_attempts_is_immediate_fault(host, said, tmp_path):
    with serving(Scripted(*[(429, {"Retry-After": said})] * 50)) as service:
        with pytest.raises(
            ResourceFault, match=r"^resource 'judge': 429 Too Many Requests; it asks to be left alone for"
        ):
            call(host, service, tmp_path, [b"a", b"b", b"c"], attempts=2, timeout_s=5.0)
        assert len(service.times) == 1


@pytest.mark.parametrize("host", HOSTS)
def test_a_time_beyond_one_attempt_is_waited_for(host, tmp_path):
    with serving(Scripted((429, {"Retry-After": "1.2"}))) as service:
        assert call(host, service, tmp_path, [b"a"], attempts=3, timeout_s=1.0) == ([b"ok"], 1)
        assert len(service.times) == 2 and service.times[1] - service.times[0] >= 1.2


def outcomes(host, address, tmp_path, questions, **settings):
    with ALL_HOSTS[host]({"judge": Resource(http=address, **settings)}, tmp_path / "objects") as served:
        return served.ask("judge", [ResourceCall(each, asked_by="task") for each in questions])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("host", ALL_HOSTS)
@pytest.mark.parametrize("step", [(503, {}), (503, {"Retry-After": "0.3"}), "drop"], ids=["busy", "later", "drop"])
def test_task_stops_asking_service_that_is_down(host, step, tmp_path):
    """Each of the slots asks its first question to the end, and the service is asked at most 4 times in a pause."""
    seconds = 1.5 if step == "drop" else 0.4
    with serving(Scripted(*[step] * 5000)) as service:
        ended = outcomes(host, service.address, tmp_path, [b"q"] * 50, slots=2, attempts=2, timeout_s=seconds)
    assert all(each.error for each in ended)
    assert len({each.error for each in ended if not each.attempts}) == 1
    assert sum(each.attempts > 0 for each in ended) <= 2
    assert "Retry-After" not in step[1] or len(service.times) <= 4 * 3


@pytest.mark.parametrize("host", ALL_HOSTS)
def test_task_stops_asking_service_that_is_gone(host, tmp_path):
    with serving(Scripted()) as service:
        address = service.address
    ended = outcomes(host, address, tmp_path, [b"q"] * 50, attempts=2, timeout_s=0.6)
    assert {each.attempts for each in ended[1:]} == {0} and ended[0].attempts == 2
    assert {each.error for each in ended} == {ended[0].error} and ended[0].error.endswith("(2 attempts)")


def test_repeated_task_asks_unavailable_service_once(tmp_path):
    """Once it answers again, a question has all its attempts."""
    down, settings = [(503, {"Retry-After": "1"})], {"attempts": 2, "timeout_s": 1.5}
    questions = [ResourceCall(b"q", asked_by="task")] * 5
    with serving(Scripted(*down * 50)) as service:
        resource = Resource(http=service.address, **settings)
        with in_processes({"judge": resource}, tmp_path / "objects") as served:
            served.ask("judge", questions)
            before = len(service.times)
            time.sleep(1.2)  # the pause is over
            assert all(each.error for each in served.ask("judge", questions))
            assert all(each.error for each in served.ask("judge", questions))
            assert len(service.times) == before + 1
            time.sleep(1.2)
            service.steps[:] = []
            assert not any(each.error for each in served.ask("judge", questions))
            service.steps[:] = down
            assert not any(each.error for each in served.ask("judge", questions))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("host", ALL_HOSTS)
@pytest.mark.parametrize("status", [400, 404, 500])
def test_refused_question_harms_no_other(host, status, tmp_path):
    with serving(Scripted((status, {}))) as service:
        ended = outcomes(host, service.address, tmp_path, [b"q"] * 5, attempts=1)
    assert [each.answer for each in ended if not each.error] == [b"ok"] * 4


@pytest.mark.parametrize("host", ["in processes", "in a pool"])
def test_permanently_postponed_question_harms_no_other(host, tmp_path):
    class Picky(ScriptedHandler):
        def do_POST(self):
            question = self.rfile.read(int(self.headers["Content-Length"]))
            time.sleep(0.05)
            self.send_response(503 if question == b"bad" else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

    with serving(Scripted()) as service:
        service.RequestHandlerClass = Picky
        questions = [b"bad", *[b"good"] * 20]
        ended = outcomes(host, service.address, tmp_path, questions, slots=2, attempts=1, timeout_s=1.5)
    assert ended[0].error and [each.answer for each in ended[1:]] == [b"ok"] * 20


def test_batch_ends_when_action_starves_all_others():
    down, batch = CallOutcome(error="503", run_ms=7.0, is_down=True), CallBatch()

    def down_while_another_is_answered():
        batch.outcome(lambda: CallOutcome(b"ok"))
        return down

    assert batch.outcome(down_while_another_is_answered) == down and not batch.is_over()
    assert batch.outcome(lambda: CallOutcome(error="400")).error == "400" and not batch.is_over()
    assert batch.outcome(lambda: down) == down and batch.is_over()
    assert batch.outcome(lambda: CallOutcome(b"ok")) == CallOutcome(error="503", attempts=0, is_down=True)


def all_are_graded(seed, host, tmp_path, questions, keep):
    """Check that every question has its own grade and is paid once, for any faults. Returns the service."""
    asked = [b"question %d" % number for number in range(questions)]
    with serving(FaultyService(seed)) as service:
        heard, paid = call(host, service, tmp_path, asked, slots=4, attempts=2, keep=keep)
    assert heard == [grade(question) for question in asked]
    assert paid == questions
    assert set(service.answered) == set(asked)
    return service


@pytest.mark.parametrize("host", HOSTS)
def test_a_service_with_random_faults_loses_no_question(host, tmp_path):
    service = all_are_graded(56, host, tmp_path, 24, keep=True)
    assert sum(service.faults.values()) > 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_services_with_random_faults_lose_no_question(seed, tmp_path):
    all_are_graded(seed, "in processes" if seed % 4 else "in process", tmp_path, 60, keep=bool(seed % 2))


def test_service_is_asked_through_environment_proxy(shell):
    with serving(Scripted()) as proxy:
        shell.export(HTTP_PROXY=f"http://me:p%40ss@127.0.0.1:{proxy.server_port}")
        kind = begin("judge", Resource(http="http://judge.invalid:81/grade?a=b", timeout_s=5.0))
        assert [kind.answer(ResourceCall(b"q"), 1) for _ in range(2)] == [b"ok"] * 2
        kind.close()
    assert proxy.paths == ["http://judge.invalid:81/grade?a=b"] * 2
    assert [(each["Host"], each["Proxy-Authorization"]) for each in proxy.sent] == [
        ("judge.invalid:81", "Basic bWU6cEBzcw==")  # me:p@ss
    ] * 2


def test_secure_service_uses_tunnel_without_leaking_password(shell):
    with serving(Scripted(503, 407)) as proxy:
        shell.export(https_proxy=f"me:secret@127.0.0.1:{proxy.server_port}", MARLESS_RESOURCE_JUDGE_TOKEN="token")
        kind = begin("judge", Resource(http="https://judge.invalid/grade", timeout_s=5.0))
        with pytest.raises(NoAnswer) as error:
            kind.answer(ResourceCall(b"q"), 1)
        kind.close()
    assert str(error.value).startswith("judge.invalid: OSError: Tunnel connection failed: 407 ")
    assert "secret" not in str(error.value)
    assert proxy.paths == ["judge.invalid:443"] * 2
    assert {each["Proxy-Authorization"] for each in proxy.sent} == {"Basic bWU6c2VjcmV0"}  # me:secret
    assert not any("Authorization" in each for each in proxy.sent)


@pytest.mark.parametrize(
    ("address", "no_proxy", "is_direct"),
    [
        ("http://localhost/", "", True),
        ("http://127.0.0.7:80/", "", True),
        ("http://[::1]/", "", True),
        ("http://judge.example/", "", False),
        ("http://judge.example/", "judge.example", True),
        ("http://judge.example/", "other.example, .example", True),
        ("http://judge.example/", "*.example", True),
        ("http://judge.example/", "*", True),
        ("http://JUDGE.example:81/", "judge.example:81", True),
        ("http://judge.example:82/", "judge.example:81", False),
        ("http://myjudge.example/", "judge.example", False),
        ("http://10.1.2.3/", "10.0.0.0/8", True),
        ("http://11.1.2.3/", "10.0.0.0/8", False),
        ("http://[fd00::1]/", "fd00::/8", True),
    ],
)
def test_local_or_excluded_service_is_asked_directly(address, no_proxy, is_direct, shell):
    shell.export(http_proxy="http://proxy.example", NO_PROXY=no_proxy)
    assert (proxy_of(urlsplit(address)) is None) == is_direct


def test_general_proxy_is_used_without_specific_proxy(shell):
    shell.export(all_proxy="all.example:1080", https_proxy="http://secure.example:3128/")
    assert proxy_of(urlsplit("http://judge.example/"))[:2] == ("all.example", 1080)
    assert proxy_of(urlsplit("https://judge.example/"))[:2] == ("secure.example", 3128)


@pytest.mark.parametrize(
    ("proxy", "says"),
    [
        (
            "socks5://me:secret@proxy.example:1080",
            "http_proxy names a proxy that is not asked by http://; add the service",
        ),
        ("https://me:secret@proxy.example", "http_proxy names a proxy that is not asked by http://; add the service"),
        (
            "http://me:secret@proxy.example:port",
            "http_proxy is no address of a proxy, such as http://proxy.example:3128",
        ),
        ("http://me:secret@", "http_proxy is no address of a proxy, such as http://proxy.example:3128"),
        ("http://[secret", "http_proxy is no address of a proxy, such as http://proxy.example:3128"),
    ],
)
def test_unusable_proxy_is_named_without_password(proxy, says, shell):
    shell.export(http_proxy=proxy)
    with pytest.raises(NoAnswer, match=f"^{says}") as error:
        begin("judge", Resource(http="http://judge.example/"))
    assert "secret" not in str(error.value)
