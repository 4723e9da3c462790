"""Limits of requests and connections. The expected times are worked out by hand."""

import asyncio
from contextlib import suppress

import pytest
from requests_to_labs import ATTACKS
from uvicorn import Config
from uvicorn.server import ServerState

from marless_server.web.app import application
from marless_server.web.connections import BoundedConnection
from marless_server.web.rates import RateLimit, Rates, network


def test_a_name_has_a_burst_and_then_a_rate_within_bounded_memory():
    now, waits = [0.0], []
    limit = RateLimit(burst=3, per_s=2.0, most=100, clock=lambda: now[0])
    for now[0] in (0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 9.0):
        waits.append(limit.wait_s("a"))
        limit.count("a", not waits[-1])
    # Three at once. The fourth waits for half a second, and so does the one after it.
    assert (waits, limit.wait_s("b")) == ([0.0, 0.0, 0.0, 0.5, 0.0, 0.5, 0.0], 0.0)
    limit.count("a", 9)
    for number in range(1000):
        limit.count(str(number), 4)
    assert (limit.names, limit.wait_s("a"), limit.wait_s("999")) == (100, 0.0, 1.0)


def test_one_machine_has_one_name():
    hosts = ("192.0.2.7", "::ffff:192.0.2.7", "::1", "nothing", "2001:db8:0:1::5", "2001:db8:0:1:ffff::9%eth0")
    names = ["192.0.2.7", "192.0.2.7", "::1", "", "2001:db8:0:1::/64", "2001:db8:0:1::/64"]
    assert [network(host) for host in hosts] == names


def test_too_many_requests_of_an_address_or_a_token_are_refused(lab):
    def statuses(count, token, client):
        # Anyone can send such a header, so it does not name the address.
        headers = [("authorization", f"Bearer {token}"), ("x-forwarded-for", "198.51.100.9")]
        return [lab.send("GET", "/healthz", headers=headers, client=client).status for _ in range(count)]

    ana, ben = lab.tokens["ana"], lab.tokens["ben"]
    lab.app = application(
        lab.lab, ["127.0.0.1:8765"], Rates(*(RateLimit(burst=61, per_s=1.0, clock=lambda: 0.0) for _ in range(2)))
    )
    # A failure costs 31 requests: 30 of them, and its arrival. So the second one reaches 62.
    assert statuses(4, "wrong", "192.0.2.7") == [401, 401, 429, 429]
    assert statuses(1, ana, "192.0.2.7") == [429]
    assert statuses(1, ana, "192.0.2.8") == [200]
    # People behind a proxy share its address, so failures refuse no token.
    assert statuses(4, "wrong", "127.0.0.1") == [401, 401, 401, 429]
    assert statuses(61, ben, "127.0.0.1") == [200] * 61
    assert (statuses(1, ben, "127.0.0.1"), statuses(1, ana, "127.0.0.1")) == ([429], [200])
    answer = lab.send("GET", "/", headers=[("authorization", f"Bearer {ben}")], client="127.0.0.1")
    assert answer.headers["retry-after"] == "1"
    assert answer.json["detail"] == "this token sends too many requests; wait 1 s"


class _Hasty(BoundedConnection):
    most_of_machine, headers_s = 2, 0.05


def conversation(app, sent, count=1, kind=BoundedConnection):
    """The answers to raw bytes on connections at the same time, until the server has closed each, and the open ones."""

    async def converse():
        config, state, answers = Config(app, log_config=None, http=kind, ws="none"), ServerState(), []
        server = await asyncio.get_running_loop().create_server(lambda: kind(config, state, {}), "127.0.0.1", 0)
        pairs = [await asyncio.open_connection(*server.sockets[0].getsockname()) for _ in range(count)]
        for _, writer in pairs:
            writer.write(sent)
        for reader, writer in pairs:
            answers.append(b"")
            with suppress(ConnectionResetError):
                answers[-1] = await asyncio.wait_for(reader.read(), 30)
            writer.close()
        server.close()
        return answers, state.connections

    return asyncio.run(converse())


@pytest.mark.parametrize("start", [b"", b"GET / HTTP/1.1\r\nhost: a\r\n"])
def test_idle_and_too_many_connections_are_cut(lab, start):
    # The third at once, as the address may have two, and the others at their deadline.
    assert conversation(lab.app, start, 3, _Hasty) == ([b""] * 3, set())


@pytest.mark.parametrize(("head", "status"), ATTACKS["raw requests"].items())
def test_a_request_that_two_servers_could_read_differently_gets_one_answer(lab, head, status):
    [answer], _ = conversation(lab.app, (head.replace("\n", "\r\n") + "\r\nconnection: close\r\n\r\n").encode())
    assert (answer.split()[1], answer.count(b"HTTP/1.1")) == (str(status).encode(), 1)
