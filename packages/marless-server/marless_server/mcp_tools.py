"""Tools of a lab's server for language models (Model Context Protocol). Without `may_change`, they only read."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from marless.coordinator.config.schema import ConfigError
from marless.coordinator.config.toml_parsing import parse_toml
from marless.coordinator.errors import UserError, one_line
from marless.functions.encoding import Undecodable
from marless_server.client import Server

_MOST_ROUNDS = 200


class Tools:
    """The tools. They take configurations as TOML text. A path is an error, so the files of this machine are safe."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def readers(self) -> list[Callable[..., Any]]:
        """Return the tools that only read."""
        return [self.about, self.pool, self.runs, self.run, self.rounds, self.log, self.check]

    def changers(self) -> list[Callable[..., Any]]:
        """Return the tools that change something."""
        return [self.submit, self.stop, self.resume]

    def about(self) -> dict[str, Any]:
        """Return the owner's name, rights and quotas."""
        return self._server.about()

    def pool(self) -> dict[str, Any]:
        """Return the slots, the queue with places and reasons, and the owners with their use of today."""
        return self._server.pool()

    def runs(self, status: str = "") -> list[dict[str, Any]]:
        """Return the owner's runs, the newest first. `status` is queued, running, stopped, finished or failed."""
        return self._server.runs(status or None)

    def run(self, run: str) -> dict[str, Any]:
        """Return a run's status, its place in the queue with the reason, its progress, its bill and its settings."""
        return self._server.run(run).status()

    def rounds(self, run: str) -> list[dict[str, Any]]:
        """Return the last 200 rounds of a run, with returns, losses, steps, seconds and dollars."""
        return self._server.run(run).rounds()[-_MOST_ROUNDS:]

    def log(self, run: str) -> str:
        """Return a run's log, a line for each event."""
        return self._server.run(run).log()

    def check(self, config: str) -> dict[str, Any]:
        """Check a configuration (TOML text) without a submission. Return its price, and when it would begin and end."""
        return self._server.check(parse_toml(config))

    def submit(self, config: str) -> dict[str, Any]:
        """Put a run into the queue. `config` is TOML text. Check it first, as a run costs time and money."""
        return self._server.submit(parse_toml(config)).status()

    def stop(self, run: str) -> dict[str, Any]:
        """Stop a run after its tasks in flight. `resume` continues it."""
        self._server.run(run).stop()
        return self.run(run)

    def resume(self, run: str, rounds: int = 0) -> dict[str, Any]:
        """Queue a run again. With `rounds` above 0, it ends after this number of rounds."""
        self._server.run(run).resume(**({"rounds": rounds} if rounds else {}))
        return self.run(run)


def tool_server(server: Server, may_change: bool) -> Any:
    """Return an MCP server with the tools. Raises `UserError` without the package `mcp`."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise UserError("marless server mcp needs a package: pip install 'marless-server[mcp]'") from error
    tools, result = Tools(server), MCPServer("marless")
    for tool in tools.readers():
        result.add_tool(_with_reasons(tool), annotations=ToolAnnotations(read_only_hint=True))
    for tool in tools.changers() if may_change else ():
        result.add_tool(_with_reasons(tool), annotations=ToolAnnotations(read_only_hint=False))
    return result


def _with_reasons(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Return the tool with errors that the model reads. It would get no reason of other errors."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    def _call(*args: Any, **kwargs: Any) -> Any:
        try:
            return tool(*args, **kwargs)
        except (ConfigError, Undecodable, UserError) as error:
            raise ToolError(one_line(error)) from error

    return _call
