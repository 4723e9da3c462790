"""The account's listener handles bodies before it knows their sender."""

import http.client
import socket
import threading

import pytest

from aws_emulator.listener import listen
from aws_emulator.wsgi import body

MEGABYTE = 1 << 20


@pytest.fixture
def received():
    return []


@pytest.fixture
def port(received):
    def app(environ, start):
        received.append(body(environ))
        start("200 OK" if environ.get("HTTP_AUTHORIZATION") else "403 Forbidden", [])
        return [b"answer"]

    server = listen(app, admits=lambda environ: "HTTP_AUTHORIZATION" in environ)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def connection(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        yield connection


def test_large_unsigned_body_is_refused_before_it_arrives(connection, received):
    connection.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 300000000\r\n\r\n" + b"x" * MEGABYTE)
    assert connection.makefile("rb").read().startswith(b"HTTP/1.1 403 ")
    assert received == [b""]


def test_chunked_unsigned_body_is_refused_before_it_ends(connection, received):
    chunk = b"%x\r\n%b\r\n" % (MEGABYTE, b"x" * MEGABYTE)
    connection.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
    assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 403 ")
    assert received == [b""]


def test_connection_continues_after_small_unsigned_body(port, received):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for headers in ({}, {"Authorization": "key"}):
        connection.request("POST", "/", b"small", headers)
        connection.getresponse().read()
    assert received == [b"", b"small"]


@pytest.mark.parametrize("length", [b"many", b"-1", b"1e3", "\N{FULLWIDTH DIGIT ONE}".encode(), b"9" * 5000])
def test_a_length_that_is_no_number_is_refused(connection, received, length):
    connection.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: " + length + b"\r\n\r\n")
    assert connection.makefile("rb").read().startswith(b"HTTP/1.1 400 ")
    assert received == []
