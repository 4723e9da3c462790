"""Servers in separate processes, which tests kill. Runs end with the bytes of runs alone."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from requests_to_labs import SMALL

import marless as library
from marless_server import ServerError, connect
from marless_server.mcp_tools import tool_server
from marless_server.serving import stored
from marless_server.store.owners import Owner

ROUNDS = 60


class Served:
    """`marless serve` in a folder."""

    def __init__(self, data):
        command = [sys.executable, "-m", "marless.cli.app", "serve", "--data", str(data), "--address", "127.0.0.1:0"]
        self.process = subprocess.Popen([*command, "--slots", "2"], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("serves at http"), line
        self.url = line.split()[2]

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@pytest.fixture
def clients(tmp_path):
    """Return the clients of two owners for a server."""
    with stored(tmp_path / "server") as (_, owners):
        for name in ("ana", "ben"):
            owners.add(Owner(name=name))
            (tmp_path / name).write_text(owners.new_token(name))
    return lambda server: [connect(server.url, tmp_path / name) for name in ("ana", "ben")]


def test_killed_stopped_and_resumed_runs_have_the_bytes_of_runs_alone(tmp_path, clients, marless):
    configs = [SMALL | {"seed": seed, "stop": {"rounds": ROUNDS}} for seed in (1, 2, 3)]
    server = Served(tmp_path / "server")
    ana, ben = clients(server)
    runs = [ana.submit(configs[0]), ana.submit(configs[1]), ben.submit(configs[2])]
    while not all(run.rounds() for run in runs):
        time.sleep(0.02)
    server.end(signal.SIGKILL)
    (leftover := tmp_path / "server/runs/.archive-1").mkdir()
    server = Served(tmp_path / "server")
    ana, ben = clients(server)
    runs = [*(ana.run(run.id) for run in runs[:2]), ben.run(runs[2].id)]
    runs[1].stop()
    statuses = [run.wait(60) for run in runs]
    assert [status["status"] for status in statuses] == ["finished", "stopped", "finished"]
    assert statuses[1]["round"] < ROUNDS
    with pytest.raises(ServerError, match="no such run"):
        ben.run(runs[0].id).fetch()
    runs[1].resume(dollars=5)
    assert runs[1].wait(60)["status"] == "finished"
    assert "waits: the server started again" in runs[0].log()
    folders = [run.fetch(tmp_path / "runs") for run in runs]
    assert (server.end(signal.SIGTERM), leftover.exists()) == (0, False)
    for config, folder in zip(configs, folders, strict=True):
        assert marless("runs", "verify", str(folder)).code == 0
        alone = library.train(config, run=f"alone-{folder.name}", quiet=True, workers=1)
        hashes = {json.loads((path / "summary.json").read_text())["weights_sha256"] for path in (folder, alone.folder)}
        assert len(hashes) == 1


def test_the_commands_serve_an_owner(tmp_path, marless, shell):
    assert marless("serve", "owner", "add", "ana", "--weight", "2").code == 0
    token = marless("serve", "owner", "token", "ana").out[-1]
    assert marless("serve", "owner", "add", "ana").code == 2
    assert "--allow-unencrypted" in marless("serve", "--address", "0.0.0.0:0").err[0]
    shell.export(MARLESS_SERVER_TOKEN=token, LAB_API_KEY="sk-0123456789abcdef")
    server = Served(tmp_path / "server")
    try:
        shell.export(MARLESS_SERVER=server.url)
        (tmp_path / "run.toml").write_text('task = "toy/signal"\nalgorithm.hidden = [8]\nactors.num_envs = 8\n')
        assert marless("server", "check", "run.toml").out[0].startswith("OK, toy/signal with mappo")
        submission = marless("server", "submit", "run.toml", "evaluation.final_episodes=4", "rounds=2")
        run = submission.out[0].split()[0]
        assert marless("server", "watch", run).code == 0
        child = Path(f"/proc/{(pid := server.process.pid)}/task/{pid}/children").read_text().split()[0]
        assert b"LAB_API_KEY" not in Path(f"/proc/{child}/environ").read_bytes()
        assert marless("server", "pool").out[2].split() == ["ana", "2", "0", "0"]
        assert marless("server", "runs").out[1].split()[:2] == [run, "finished"]
        assert marless("server", "get", run).out == [f"runs/{run}"]
        assert marless("runs", "verify", run).code == 0
        refusal = marless("server", "submit", "run.toml", "log.to=[wandb]")
        assert (refusal.code, len(refusal.err)) == (2, 1)
        marless("serve", "owner", "revoke", token.split("-")[1])
        assert "a valid token is needed" in marless("server", "runs").err[0]
        assert "is in use by another process" in marless("serve", "--address", "127.0.0.1:0").err[0]
    finally:
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()


def test_a_language_model_changes_no_run_of_others(tmp_path, clients):
    mcp = pytest.importorskip("mcp")
    server = Served(tmp_path / "server")
    ana, ben = clients(server)
    (run := ana.submit(SMALL)).wait(60)
    words = ["-m", "marless.cli.app", "server", "mcp", "--server", server.url, "--token-file", str(tmp_path / "ana")]

    async def answers(tools, *calls):
        async with mcp.Client(tools) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools if not tool.annotations.read_only_hint}
            results = [await client.call_tool(name, arguments) for name, arguments in calls]
        return tools, [result.content[0].text if result.is_error else result.structured_content for result in results]

    calls = [("runs", {"status": "finished"}), ("run", {"run": run.id}), ("stop", {"run": run.id})]
    tools, texts = asyncio.run(answers(mcp.StdioServerParameters(command=sys.executable, args=words), *calls))
    assert (tools, texts[0]["result"][0]["id"], texts[1]["round"], texts[2]) == (set(), run.id, 4, "Unknown tool: stop")
    calls = [("stop", {"run": run.id}), ("submit", {"config": 'task = "a.b:make"'})]
    tools, texts = asyncio.run(answers(tool_server(ben, may_change=True), *calls))
    assert "you have no such run" in texts[0] and "no name of an installed task" in texts[1]
    assert (tools, server.end(signal.SIGTERM)) == ({"submit", "stop", "resume"}, 0)


@pytest.mark.parametrize("address", ["http://lab.example.org:8765", "ftp://127.0.0.1", "http://127.0.0.1:1/x", "lab"])
def test_a_token_goes_to_no_address_that_others_can_read(address, shell):
    shell.export(MARLESS_SERVER_TOKEN="x")
    with pytest.raises(library.UserError, match=r"address of a server|unencrypted"):
        connect(address)
