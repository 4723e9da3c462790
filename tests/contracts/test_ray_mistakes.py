"""A cluster of Ray that is not there, or not as it must be, is one line. What a cluster does is a conformance test."""

import socket
from types import ModuleType

import pytest

from infra.ray.cluster import RayError, connect


@pytest.fixture
def old_ray(shell):
    """A version of Ray that nobody tried."""
    ray = ModuleType("ray")
    ray.__version__ = "1.13.0"
    shell.provide({"ray": ray})


@pytest.fixture
def ray(shell):
    """Ray, installed and not connected: whatever is asked of it beyond that is an `AttributeError`."""
    ray = ModuleType("ray")
    ray.__version__, ray.is_initialized = "2.60.0", lambda: False
    shell.provide({"ray": ray})


def test_a_version_that_is_too_old_is_named_with_the_first_that_fits(old_ray):
    with pytest.raises(RayError, match=r"^Ray 1\.13\.0 is too old; 2\.60 is the first that fits: pip install -U ray$"):
        connect("auto", print)


@pytest.mark.parametrize("text", ["nonsense", "host:", ":6379", "host:port", "host:65536"])
def test_a_text_that_is_no_address_of_a_head_is_named(ray, text):
    with pytest.raises(RayError, match=r"is no address of a Ray head: HOST:PORT, auto or local$"):
        connect(text, print)


def test_an_address_at_which_nobody_listens_is_no_head(ray):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(RayError, match=rf"^no Ray head answers at {address}: Connection refused$"):
        connect(address, print)


def test_the_address_of_ray_s_client_is_none_of_a_head(ray):
    with pytest.raises(RayError, match=r"^ray://here:10001 is for Ray's client; start marless on a node"):
        connect("ray://here:10001", print)
