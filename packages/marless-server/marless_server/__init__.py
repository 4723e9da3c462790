"""A server that shares one machine between the people of a lab, and its client."""

from marless_server.client import RemoteRun, Server, ServerError, connect

__all__ = ["RemoteRun", "Server", "ServerError", "connect"]
