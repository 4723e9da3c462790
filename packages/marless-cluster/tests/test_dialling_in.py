"""Workers of other machines dial in: admission, the limits of peers, and the fate of tasks."""

import asyncio
import errno
import http.server
import os
import socket
import struct
import threading
import time
import types
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import ClassVar

import pytest
from asking import ask, begin, collect, said
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from loopback import serving as loopback_serving
from msgspec.structs import replace
from relay import Relay
from strangers import Impostor, connected, recorded_dial, says_nothing_more

from marless.backends.badge import Badge
from marless.functions.resources.settings import Resource
from marless.infra.local.census import noted
from marless.infra.local.file_storage import FileStorage
from marless.infra.local.pipe_messages import TaskEnded, frame
from marless_cluster.remote import encryption
from marless_cluster.remote.addresses import Address, address_of, listening_socket
from marless_cluster.remote.connection import Ends, RemoteChild, WorkerConnection
from marless_cluster.remote.dial_in_workers import dial_in_pool, dial_in_run, separate_dial_in_pools
from marless_cluster.remote.dialling import Away, Dialler
from marless_cluster.remote.dialling import refusal as refusal_of
from marless_cluster.remote.faults import DialInError
from marless_cluster.remote.handshake import Answer, Challenge, Greeting, Introduction, Stream, apply
from marless_cluster.remote.listener import Agent, Listener
from marless_cluster.remote.pulse import Pulse
from marless_cluster.remote.worker_agent import WorkerAgent

TOKEN, BADGE = b"0123456789abcdef", Badge("marless 1", "any")
MODULES = {"actor": "echo"}
# The folder of `echo`, which answers for functions.
CONTRACTS = Path(__file__).parents[3] / "tests/contracts"
HERE = Address("127.0.0.1", 0)


@contextmanager
def listening(**options):
    with closing(Listener(HERE, TOKEN, BADGE, **options)) as listener:
        yield listener


@contextmanager
def serving(listener, slots=1, token=TOKEN, badge=BADGE, port=None, beat_s=5.0):
    """An agent in this process, which dials that port. Gives its lines."""
    lines, address = [], listener.address._replace(port=port or listener.address.port)
    agent = WorkerAgent(address, slots, token, badge, lines.append, modules=MODULES, beat_s=beat_s)
    thread = threading.Thread(target=agent.run)
    thread.start()
    try:
        yield lines
    finally:
        agent.stop()
        thread.join()


def refusal(listener, token=TOKEN, badge=BADGE, tls=None):
    agent = WorkerAgent(listener.address, 2, token, badge, print, tls=tls, modules=MODULES)
    with pytest.raises(DialInError) as fault:
        agent.run()
    assert "\n" not in str(fault.value)
    return str(fault.value)


def turned_away(listener, tls=None):
    """The one line of an agent that dials on, until its patience is at an end."""
    lines = []
    WorkerAgent(listener.address, 1, TOKEN, BADGE, lines.append, patience_s=0.1, tls=tls, modules=MODULES).run()
    [line] = lines
    return line


def told(listener, text):
    until = time.monotonic() + 60
    lines = []
    while not any(text in line for line in lines):
        assert time.monotonic() < until, lines
        lines += listener.lines()
        time.sleep(0.01)
    [line] = [line for line in lines if text in line]
    assert "\n" not in line
    return line


def spare(listener):
    return sum(len(agent.idle) for agent in listener.agents().values())


def idle(listener, count):
    until = time.monotonic() + 60
    while spare(listener) != count:
        assert time.monotonic() < until, listener.lines()
        time.sleep(0.01)


@pytest.fixture
def run(tmp_path, shell):
    shell.import_from(CONTRACTS)
    opened = []

    def open_run(listener):
        opened.append(dial_in_run(listener, tmp_path / "run" / "objects", MODULES))
        return opened[-1]

    yield open_run
    for each in opened:
        each.close()


def test_worker_with_other_token_is_refused_by_both():
    with listening() as listener:
        assert "another token" in refusal(listener, token=b"0123456789abcdeg")
        assert told(listener, "another token").startswith("refused a worker of 127.0.0.1")
        assert spare(listener) == 0


def test_other_version_is_refused_and_both_are_named():
    with listening() as listener:
        line = refusal(listener, badge=Badge("marless 2", "any"))
        assert "marless 1" in line and "marless 2" in line
        assert "marless 1" in (line := told(listener, "marless 2")) and "install the same" in line


def test_another_processor_is_refused_unless_any_will_do():
    other = Badge("marless 1", "an older one")
    with listening() as listener:
        assert "any_processor" in refusal(listener, badge=other)
        assert "an older one" in told(listener, "any_processor")
    with listening(any_processor=True) as listener, serving(listener, badge=other):
        idle(listener, 1)


def test_worker_without_kernels_is_refused_for_kernel_runs():
    with closing(Listener(HERE, TOKEN, replace(BADGE, kernels=True))) as listener:
        assert "algorithm.engine=native" in refusal(listener)
        assert told(listener, "C compiler").startswith("refused a worker of 127.0.0.1")
        with serving(listener, badge=replace(BADGE, kernels=True)):
            idle(listener, 1)
    with listening() as listener, serving(listener), serving(listener, badge=replace(BADGE, kernels=True)):
        idle(listener, 2)


def test_worker_with_other_code_is_refused_and_replaced(run, tmp_path, shell):
    """The second one has the run's file: it is taken."""
    shell.import_from(tmp_path)
    (tmp_path / "somebodys_simulator.py").write_text("")
    lines, refusals = [], iter(["x has another somebodys_simulator.py", ""])
    with listening() as listener:
        invoker = run(listener)
        invoker.compare_code(lambda code, place: next(refusals) if "somebodys_simulator.py" in code and place else "")
        agent = WorkerAgent(listener.address, 2, TOKEN, BADGE, lines.append, patience_s=0.1, modules=MODULES)
        with ThreadPoolExecutor(1) as threads:
            serving_wrongly = threads.submit(agent.run)
            begin(invoker, "task", "import", "somebodys_simulator")
            while not serving_wrongly.done():
                invoker.wait(0.05)
            serving_wrongly.result()
        assert "another somebodys_simulator.py" in lines[-1]
        assert any("another somebodys_simulator.py" in line for line in invoker.own.news())
        with serving(listener):
            said(collect(invoker, 1)["task"])


def test_any_processor_serves_runs_with_portable_bytes():
    with (
        closing(Listener(HERE, TOKEN, replace(BADGE, processor=""))) as listener,
        serving(listener, badge=replace(BADGE, processor="an older one")),
        serving(listener),
    ):
        idle(listener, 2)


def test_replayed_proof_is_refused():
    async def replay(listener):
        line, greeting, answer = await recorded_dial(listener, TOKEN, BADGE)
        stream = await connected(listener)
        stream.writer.write(line + greeting)
        await stream.receive(Challenge)
        stream.writer.write(answer)
        return await says_nothing_more(stream)

    with listening() as listener:
        assert asyncio.run(replay(listener))
        told(listener, "another token")
        idle(listener, 0)


def test_proof_of_driver_is_refused_from_worker():
    async def reflect(listener):
        stream = await connected(listener)
        stream.writer.write(b"marless dial-in 1\n")
        await stream.send(Greeting(b"n" * 32))
        challenge = await stream.receive(Challenge)
        await stream.send(Answer(challenge.proof, b""))
        return await says_nothing_more(stream)

    with listening() as listener:
        assert asyncio.run(reflect(listener))
        told(listener, "another token")


def test_too_long_greeting_ends_the_connection():
    async def announce(listener):
        stream = await connected(listener)
        stream.writer.write(b"marless dial-in 1\n" + struct.pack("<I", 4097))
        return await says_nothing_more(stream)

    with listening() as listener:
        assert asyncio.run(announce(listener))
        told(listener, "more than 4,096 bytes")


def test_slow_peers_are_disconnected_and_block_no_worker():
    async def dawdle(listener):
        streams = [await connected(listener) for _ in range(150)]  # more than there are places
        streams[0].writer.write(b"m")
        for stream in streams:
            assert await says_nothing_more(stream)

    with listening(patience_s=0.5) as listener:
        asyncio.run(dawdle(listener))
        told(listener, "in time")
        with serving(listener):
            idle(listener, 1)


@pytest.mark.parametrize("greets", [False, True])
def test_too_many_strangers_block_no_worker(greets):
    async def stand_about(listener, over):
        streams = [await connected(listener) for _ in range(300)]
        for stream in streams if greets else ():
            with suppress(ConnectionError):  # another stranger has its place
                stream.writer.write(b"marless dial-in 1\n")
                await stream.send(Greeting(b"n" * 32))
        while not over.is_set():
            await asyncio.sleep(0.01)

    over = threading.Event()
    with listening() as listener:
        crowd = threading.Thread(target=lambda: asyncio.run(stand_about(listener, over)))
        crowd.start()
        try:
            with serving(listener):
                idle(listener, 1)
        finally:
            over.set()
            crowd.join()


def test_what_is_said_of_strangers_has_an_end():
    async def come(listener, program):
        stream = await connected(listener)
        with pytest.raises(DialInError):
            await apply(stream, TOKEN, Introduction("somewhere", "agent", Badge(program, "any")))
        stream.writer.close()

    async def come_all(listener):
        for number in range(70):
            await come(listener, f"marless {number + 2}")

    with listening() as listener:
        asyncio.run(come_all(listener))
        lines, until = listener.lines(), time.monotonic() + 60
        while not any("no more of this kind" in line for line in lines):
            assert time.monotonic() < until
            lines += listener.lines()
        assert len(lines + listener.lines()) == 50


@pytest.mark.parametrize("ways", [{"up"}, {"down"}, {"up", "down"}])
def test_silent_machine_behind_relay_is_lost_while_computing(ways, run):
    with listening(beat_s=0.3) as listener:
        relay = Relay(listener.address.port)
        with serving(listener, port=relay.port, beat_s=0.3):
            idle(listener, 1)
            invoker = run(listener)
            begin(invoker, "run/1/sample", "hold", timeout_s=1000.0)  # without the interpreter's lock for a minute
            while not any(worker.task for worker in invoker.own.workers):
                invoker.wait(0.01)
            invoker.wait(1.0)
            assert invoker.own.connected == 1  # the agent's beats come all the same
            relay.frozen = ways
            until = time.monotonic() + 60
            while invoker.own.connected:
                assert time.monotonic() < until and not invoker.wait(0.05)
            [pending] = next(iter(invoker.own.lanes)).pending_tasks()
            assert "was lost; its task is served elsewhere" in pending.remarks[0]


@pytest.mark.parametrize("way", ["up", "down"])
def test_flipped_bit_costs_its_task_no_attempt(way, run):
    text = "x" * 300_000
    with listening() as listener:
        relay = Relay(listener.address.port)
        relay.flips[way] = 100_000
        with serving(listener, port=relay.port):
            idle(listener, 1)
            invoker = run(listener)
            begin(invoker, "run/1/sample", "echo", text)
            report = collect(invoker, 1)["run/1/sample"]
        assert said(report) == text
        assert "served elsewhere" in report.remarks[0] and not relay.flips


def test_slot_refused_once_leaves_its_agent_serving(run):
    with listening() as listener:
        relay = Relay(listener.address.port)
        with serving(listener, port=relay.port) as lines:
            idle(listener, 1)
            relay.flips["down"] = 40  # of the driver's proof, when the agent dials again
            invoker = run(listener)
            for number in range(2):
                begin(invoker, f"run/{number}/sample", "exit", 3)
                collect(invoker, 1)
            begin(invoker, "run/2/sample", "echo", "said")
            assert said(collect(invoker, 1)["run/2/sample"]) == "said"
        assert any("cannot serve" in line or "no driver of marless" in line for line in lines)


def test_machines_that_join_and_leave_are_named(run):
    with listening() as listener:
        invoker = run(listener)
        with serving(listener, slots=2):
            idle(listener, 2)
            assert any("joined with 2 slots" in line for line in invoker.own.news() + listener.lines())
            assert listener.slots_by_host().total() == 2
            while not noted(invoker.own.logs):
                invoker.wait(0.01)
            assert noted(invoker.own.logs) == listener.slots_by_host()
        invoker.close()
        assert not noted(invoker.own.logs)


def test_ended_connection_gets_no_task():
    async def end_and_begin():
        server_end, client_end = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=server_end)
        stream = Stream(reader, writer)
        connection = WorkerConnection(stream, Introduction("gone", "agent", BADGE), Pulse(stream))
        child = RemoteChild(connection)
        serving_it = asyncio.create_task(connection.serve())
        await asyncio.sleep(0)
        assert child.alive()
        client_end.close()
        await serving_it
        assert not child.alive() and child.end() is None
        pipes = [os.pipe() for _ in range(3)]
        connection.begin(Ends(*(writing for _, writing in pipes)))
        assert [os.read(reading, 1) for reading, _ in pipes] == [b""] * 3  # it has closed its ends
        for reading, _ in pipes:
            os.close(reading)

    asyncio.run(end_and_begin())


def test_ended_idle_connection_is_not_taken(run):
    with listening() as listener, serving(listener):
        idle(listener, 1)
        [agent] = listener.agents().values()
        ended = types.SimpleNamespace(closed=True)
        agent.idle.appendleft(ended)
        assert said(ask(run(listener), "echo", "said")) == "said"


def test_connection_cut_inside_frame_costs_no_attempt(run):
    half = frame(TaskEnded(1.0, 1.0, 1.0, 1.0), b'"forged"')[:-3]
    with listening() as listener:
        impostor = Impostor(listener, TOKEN, BADGE, half)
        idle(listener, 1)
        invoker = run(listener)
        begin(invoker, "run/1/sample", "echo", "said")
        impostor_gone = threading.Thread(target=impostor.join)
        impostor_gone.start()
        with serving(listener):
            report = collect(invoker, 1)["run/1/sample"]
        assert said(report) == "said"
        assert report.remarks == ("the connection to impostor was lost; its task is served elsewhere",)


def test_run_that_lost_its_machine_skips_the_queue(tmp_path, shell):
    shell.import_from(CONTRACTS)
    with listening() as listener, dial_in_pool(listener, MODULES, tmp_path / "logs") as pool:
        pool._start_s = 60.0  # as of imports on a slow machine, which the run of a process pays that it has ended
        lanes = [pool.lane(name, tmp_path / name) for name in ("lost", "other")]
        impostor = Impostor(listener, TOKEN, BADGE, b"", raw=True)
        idle(listener, 1)
        begin(lanes[0], "lost", "echo", "said")
        impostor.join()
        for number in range(20):
            begin(lanes[1], f"{number}", "sleep", 0.02)
        with serving(listener):
            [report] = collect(lanes[0], 1).values()
            others = len(lanes[1].reports)
            assert "was lost" in report.remarks[0] and said(report) == "said"
            assert others < 20
            collect(lanes[1], 20)


@pytest.mark.parametrize(
    ("announced", "raw", "line"),
    [(struct.pack("<IQ", 9, 1 << 63), False, "longer than any message"), (b"\1\xff\xff\xff\xff", True, "none of ours")],
)
def test_too_large_frame_ends_connection_in_one_line(run, announced, raw, line):
    with listening() as listener:
        Impostor(listener, TOKEN, BADGE, announced, stays=True, raw=raw)
        idle(listener, 1)
        invoker = run(listener)
        begin(invoker, "run/1/sample", "echo", "said")
        with serving(listener):
            report = collect(invoker, 1)["run/1/sample"]
        if raw:  # the connection is lost, and the task is served elsewhere
            assert any(line in each for each in invoker.own.news())
            assert said(report) == "said"
        else:
            assert report.outcome == "crash"
            assert "\n" not in report.detail


def test_unwritten_result_is_crash_of_worker(run):
    with listening() as listener:
        Impostor(listener, TOKEN, BADGE, frame(TaskEnded(1.0, 1.0, 1.0, 1.0), b'"forged"'), stays=True)
        idle(listener, 1)
        invoker = run(listener)
        begin(invoker, "run/1/sample", "echo", "said")
        assert collect(invoker, 1)["run/1/sample"].outcome == "crash"


def test_run_reports_wait_for_workers_and_continues(run):
    with listening() as listener:
        invoker, began = run(listener), time.monotonic()
        begin(invoker, "run/1/sample", "echo", "said")
        until = began + 60
        while not (news := invoker.own.news()):
            assert time.monotonic() < until
            assert invoker.wait(0.1) == []
        assert time.monotonic() >= began + 2  # a worker may be on its way
        assert news == [f"no worker is connected to {listener.address}; the run waits for one"]
        with serving(listener):
            assert said(collect(invoker, 1)["run/1/sample"]) == "said"
        assert "a worker is connected; the run goes on" in invoker.own.news()


class Busy(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(503)
        self.send_header("Retry-After", "6")
        self.end_headers()

    def log_message(self, *words):
        pass


def test_run_reports_pause_asked_by_resource(run):
    busy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    busy.stopping = threading.Event()
    with listening() as listener, serving(listener), loopback_serving(busy):
        invoker = run(listener)
        address = f"http://127.0.0.1:{busy.server_port}/"
        invoker.serve({"judge": Resource(http=address, attempts=1, timeout_s=5.0)})
        begin(invoker, "run/1/sample", "ask", "judge")
        line = "resource 'judge': 503 Service Unavailable; it asks to be left alone for 6 s"
        assert line.endswith(said(collect(invoker, 1)["run/1/sample"]))
        assert invoker.own.news().count(line) == 1 and line not in invoker.own.news()


class Expecting(Listener):
    """It has an agent with a single busy connection, until `far` is empty."""

    far: ClassVar = {"far": Agent("far", 1)}

    def agents(self):
        return {**super().agents(), **self.far}


def test_task_waits_for_connection_under_way(run):
    with closing(Expecting(HERE, TOKEN, BADGE)) as listener:
        invoker = run(listener)
        begin(invoker, "run/1/sample", "echo", "said")
        assert [invoker.wait(0.05) for _ in range(3)] == [[], [], []]
        listener.far = {}
        with serving(listener):
            assert said(collect(invoker, 1)["run/1/sample"]) == "said"


def test_slots_are_those_that_are_connected(run):
    with listening() as listener:
        invoker = run(listener)
        with serving(listener, slots=3):
            idle(listener, 3)
            for number in range(3):
                begin(invoker, f"run/1/sample/{number}", "sleep", 0.5)
            assert invoker.own.connected == 3
            assert len(collect(invoker, 3)) == 3
        until = time.monotonic() + 60
        while invoker.own.connected:
            assert time.monotonic() < until
            invoker.wait(0.05)


def test_worker_busy_share_follows_task_time(run):
    with listening() as listener:
        invoker = run(listener)
        assert invoker.own.scheduler.busy_share() == 0.0  # nobody is connected
        with serving(listener):
            idle(listener, 1)
            for _ in range(2):
                ask(invoker, "sleep", 0.2)
            assert 0.0 < invoker.own.scheduler.busy_share() <= 1.0


def at_once(shifts):
    return max(sum(began <= at < ended for _, _, began, ended in shifts) for _, _, at, _ in shifts)


def test_user_code_keeps_processes_and_slots_stay_limited(tmp_path, shell):
    for folder in (CONTRACTS, tmp_path):
        shell.import_from(folder)
    (tmp_path / "echo_too.py").write_text("from echo import handle\n")
    (tmp_path / "somebodys_game.py").write_text("")
    functions = {"actor": "echo", "learner": "echo_too"}
    with listening() as listener, serving(listener, slots=2), serving(listener, slots=1):
        idle(listener, 3)
        with dial_in_run(listener, tmp_path / "run" / "objects", functions) as invoker:
            shifts = []
            for number in range(6):
                for function in functions:
                    for task in range(6):
                        begin(invoker, f"run/{number}/{function}/{task}", "shift", "somebodys_game", function=function)
                    shifts += map(said, collect(invoker, 6).values())
    agents = [[shift for shift in shifts if shift[0] == parent] for parent in {shift[0] for shift in shifts}]
    assert sorted(map(at_once, agents)) == [1, 2]
    # One that plays and one that learns for each slot, for any number of rounds. Each that starts has a log.
    assert len(list((tmp_path / "run/workers").glob("*.log"))) <= 6


def test_compared_runs_have_one_slot_and_replace_it(tmp_path, shell):
    shell.import_from(CONTRACTS)
    with (
        listening() as listener,
        serving(listener),
        separate_dial_in_pools(listener, MODULES, tmp_path / "logs") as pools,
    ):
        with serving(listener):
            idle(listener, 2)
            lanes = [pools.lane(name, tmp_path / name / "objects") for name in ("one", "other")]
            assert not pools.has_room()
            assert said(ask(lanes[0], "parent")) != said(ask(lanes[1], "parent"))
        until = time.monotonic() + 60
        while sum(lane.own.connected for lane in lanes) != 1:
            assert time.monotonic() < until
            pools.wait(0.05)
        [left] = [lane for lane in lanes if lane.own.connected]
        left.close()
        [waiting] = [lane for lane in lanes if lane is not left]
        assert said(ask(waiting, "echo", "on")) == "on"


def certificate(folder):
    """One for this machine's address that has signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "driver")]), datetime.now(UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return paths


def test_traffic_is_encrypted_on_request(run, tmp_path):
    paths = certificate(tmp_path)
    with listening(tls=encryption.of_driver(*paths)) as listener:
        trusting = encryption.of_worker(paths[0])
        agent = WorkerAgent(listener.address, 1, TOKEN, BADGE, print, tls=trusting, modules=MODULES)
        thread = threading.Thread(target=agent.run)
        thread.start()
        invoker, text = run(listener), "x" * 3_000_000
        begin(invoker, "run/1/sample", "echo", text)
        assert said(collect(invoker, 1)["run/1/sample"]) == text
        agent.stop()
        thread.join()


def test_agent_with_other_encryption_than_driver_says_so(tmp_path):
    paths = certificate(tmp_path)
    (tmp_path / "other").mkdir()
    stranger = certificate(tmp_path / "other")[0]
    with listening(tls=encryption.of_driver(*paths)) as listener:
        assert "--tls-ca" in turned_away(listener)
        line = refusal(listener, tls=encryption.of_worker(stranger))
        assert "no encrypted connection" in line and "self-signed certificate" in line
        assert "does not take this driver's certificate" in told(listener, "certificate")
    with listening() as listener:
        assert "does not encrypt" in turned_away(listener, tls=encryption.of_worker(paths[0]))


def test_an_address_in_use_is_one_line():
    with listening() as listener, pytest.raises(DialInError, match=r"cannot listen on .*[Aa]ddress already in use"):
        Listener(listener.address, TOKEN, BADGE)


@pytest.mark.parametrize(
    "text", ["", "7777", "node", "node:", "node:70000", "node:1:2", "a b:1", "[::1:7777", "a..b:1", f"{'n' * 70}:1"]
)
def test_text_without_address_is_one_line(text):
    with pytest.raises(DialInError, match="is not HOST:PORT"):
        address_of(text)


def test_ipv6_address_is_read_and_written_in_brackets():
    assert address_of("[::1]:7777") == Address("::1", 7777)
    assert str(Address("::1", 7777)) == "[::1]:7777"
    assert str(address_of("[fe80::1%eth0]:7777")) == "[fe80::1%eth0]:7777"


def test_a_port_beyond_the_last_is_named():
    with pytest.raises(DialInError, match="the last port is 65535"):
        address_of("0.0.0.0:80000")


@pytest.mark.parametrize(
    ("host", "reached"), [("", {"127.0.0.1", "::1"}), ("127.0.0.1", {"127.0.0.1"}), ("::1", {"::1"})]
)
def test_unnamed_host_is_reached_by_both_protocols(host, reached):
    if not socket.has_dualstack_ipv6():
        reached = reached - {"::1"} if "127.0.0.1" in reached else pytest.skip("no IPv6 here")
    with closing(listening_socket(Address(host, 0))) as listener:
        port = listener.getsockname()[1]
        answered = set()
        for target in ("127.0.0.1", "::1"):
            with suppress(OSError), socket.create_connection((target, port), timeout=5):
                answered.add(target)
    assert answered == reached


def test_host_with_both_protocols_uses_ipv4():
    families = {entry[0] for entry in socket.getaddrinfo("localhost", 1)}
    with closing(listening_socket(Address("localhost", 0))) as listener:
        assert listener.family == (socket.AF_INET if socket.AF_INET in families else socket.AF_INET6)


@pytest.mark.parametrize(
    ("error", "final", "words"),
    [
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), False, "Temporary failure"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), True, "there is no host node7"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), False, "refused"),
        (TimeoutError(), False, "no answer"),
    ],
)
def test_what_may_pass_ends_no_worker(error, final, words):
    fault = refusal_of(Address("node7", 7777), error)
    assert isinstance(fault, DialInError if final else Away)
    assert words in str(fault)


def test_a_web_server_is_no_driver():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    agent = WorkerAgent(Address("127.0.0.1", server.server_port), 1, TOKEN, BADGE, print, modules=MODULES)
    try:
        with pytest.raises(DialInError, match="no driver of marless"):
            agent.run()
    finally:
        server.shutdown()
        server.server_close()


def test_agent_redials_while_tunnel_hangs_up_before_driver():
    async def hang_up(reader, writer):
        writer.close()

    async def dial_often(dialler, times):
        async with await asyncio.start_server(hang_up, *dialler.address):
            for _ in range(times):
                with pytest.raises(Away, match="hangs up: no driver is there yet"):
                    await dialler.dial()

    with listening() as listener:
        address = listener.address
    dialler = Dialler(address, TOKEN, Introduction("here", "agent", BADGE))
    asyncio.run(dial_often(dialler, 20))
    with closing(Listener(address, TOKEN, BADGE)):
        asyncio.run(dialler.dial())


def test_worker_of_missing_driver_gives_up():
    with listening() as listener:
        address = listener.address
    lines = []
    assert not WorkerAgent(address, 2, TOKEN, BADGE, lines.append, patience_s=0.3, modules=MODULES).run()
    assert len(lines) == 1
    assert "no driver answers" in lines[0]


def test_early_continuing_task_still_learns_of_stored_object(run, tmp_path):
    root = tmp_path / "run" / "objects"
    FileStorage(root).put("a/there", b"first")
    with listening() as listener, serving(listener):
        invoker = run(listener)
        assert said(ask(invoker, "store", "a/there")) == "taken"
        assert said(ask(invoker, "store", "a/new")) == "stored"
        (root / "b").write_text("no folder")
        report = ask(invoker, "store", "b/new")
    assert report.outcome == "crash" and "StorageFault" in report.detail
    assert [(root / "a" / name).read_bytes() for name in ("there", "new")] == [b"first", b"new"]


def test_worker_accesses_only_objects_of_its_run(run, tmp_path):
    with listening() as listener, serving(listener):
        invoker = run(listener)
        begin(invoker, "run/1/sample", "sleep", 0.0)
        assert said(collect(invoker, 1)["run/1/sample"]) == "slept"
        assert list((tmp_path / "run" / "objects" / "pids").iterdir())
