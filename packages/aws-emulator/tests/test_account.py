"""The emulated account of a folder: at most one runs, commands find it, detect its end and remove it completely."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError
from emulated_accounts import living, operator
from emulated_service import CODE

from aws_emulator import account as accounts
from aws_emulator.account import AccountFault

LIMIT_S = 90.0
TEMPLATE = Path(__file__).with_name("deeds_template.yaml").read_text("utf-8")


@pytest.fixture
def start(tmp_path):
    return lambda: living(tmp_path / "account", CODE)


def until(holds):
    give_up = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def children(pid):
    """The running child processes of `pid`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:  # ended meanwhile
            continue
        if int(parent) == pid and state != "Z":
            found.append(int(folder.name))
    return found


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def answers(cloud):
    try:
        return bool(cloud.client("sts").get_caller_identity())
    except EndpointConnectionError:
        return False


def with_deeds(cloud):
    """Deploy a function for tests, and return its name."""
    stacks = cloud.client("cloudformation")
    capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
    stacks.create_stack(StackName="deeds", TemplateBody=TEMPLATE, Capabilities=capabilities)
    stacks.get_waiter("stack_create_complete").wait(StackName="deeds", WaiterConfig={"Delay": 0.02})
    return "deeds:live"


def call(cloud, function, **event):
    answer = cloud.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event))
    return json.loads(answer["Payload"].read())


def test_an_account_is_started_once_found_and_stopped(start, tmp_path):
    folder = tmp_path / "account"
    assert accounts.find(folder) is None
    with start() as first:
        second = accounts.start(folder)
        assert first.whereabouts == second.whereabouts == accounts.find(folder).whereabouts
        assert answers(operator(second))
        second.stop()
        until(lambda: accounts.find(folder) is None)
        assert not answers(operator(first))
        assert not runs(first.whereabouts.pid)
        second.stop()


def test_two_that_start_at_once_get_one_account(tmp_path):
    folder = tmp_path / "account"
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: accounts.start(folder), range(2))
    try:
        assert one.whereabouts == other.whereabouts
        command = [sys.executable, "-m", "aws_emulator.server", str(folder), "--code=."]
        third = subprocess.run(command, capture_output=True, text=True, check=False)
        assert third.returncode == 1
        assert third.stderr == f"an emulated account lives in {folder} already\n"
    finally:
        one.stop()


def test_killed_account_and_its_functions_are_noticed(start, tmp_path):
    folder = tmp_path / "account"
    with start() as first:
        function = with_deeds(operator(first))
        worker = call(operator(first), function)["pid"]
        os.kill(first.whereabouts.pid, signal.SIGKILL)
        until(lambda: not runs(first.whereabouts.pid))
        assert (folder / "account.json").exists()  # its file is stale
        until(lambda: accounts.find(folder) is None)
        until(lambda: not runs(worker))
        with start() as second:
            assert second.whereabouts.pid != first.whereabouts.pid
            assert second.whereabouts.secret != first.whereabouts.secret
            assert answers(operator(second))
            first.stop()  # of the ended account: must not stop this one
            assert answers(operator(second))


def test_stopped_account_leaves_no_process_and_no_file(start, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    with start() as started:
        function = with_deeds(operator(started))
        worker, keeper = call(operator(started), function)["pid"], started.whereabouts.pid
        left = [*children(keeper), *children(worker)]
        assert worker in left
        started.stop()
        assert [pid for pid in (keeper, *left) if runs(pid)] == []
    assert list(scratch.iterdir()) == []


def test_an_account_ends_with_whoever_needs_it(tmp_path):
    far, lifeline = os.pipe()
    started = accounts.start(tmp_path / "account", lifeline=far)
    os.close(far)
    assert answers(operator(started))
    os.close(lifeline)
    until(lambda: not runs(started.whereabouts.pid))
    assert accounts.find(tmp_path / "account") is None


def test_keys_are_for_the_owner_alone(start, tmp_path):
    folder = tmp_path / "account"
    folder.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        with start() as started:
            whereabouts = folder / "account.json"
            assert started.whereabouts.secret in whereabouts.read_text()
            assert stat.S_IMODE(whereabouts.stat().st_mode) == 0o600
            assert [path.name for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 0o022] == []
            assert started.whereabouts.secret not in (folder / "account.log").read_text()
    finally:
        os.umask(before)


def test_nothing_of_the_users_aws_environment_reaches_functions(start, tmp_path, monkeypatch):
    theirs = {
        "AWS_ACCESS_KEY_ID": "AKIAUSERSOWN",
        "AWS_SECRET_ACCESS_KEY": "users-own-secret",
        "AWS_SESSION_TOKEN": "users-own-token",
        "AWS_PROFILE": "users-own-profile",
        "AWS_DEFAULT_REGION": "users-own-region",
        "AWS_ENDPOINT_URL_S3": "http://users-own-endpoint",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://users-own-uri",
        "MOTO_CALL_RESET_API": "users-own-moto",
        "HTTPS_PROXY": "http://users-own-proxy",
        "http_proxy": "http://users-own-proxy",
        "DATABASE_PASSWORD": "users-own-password",
    }
    with monkeypatch.context() as patched, ExitStack() as held:
        for name, value in theirs.items():
            patched.setenv(name, value)
        started = held.enter_context(start())
        patched.undo()
        seen = call(operator(started), with_deeds(operator(started)), do="variables")
    assert not set(theirs.values()) & set(seen.values())
    assert seen["AWS_ACCESS_KEY_ID"].startswith("ASIA")  # of the function's role
    assert seen["AWS_REGION"] == "us-east-1"
    assert seen["AWS_ENDPOINT_URL"] == started.whereabouts.endpoint


def test_missing_folder_of_accounts_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "account", Path("/proc/account")):
        with pytest.raises(AccountFault) as failed:
            accounts.start(folder)
        message = str(failed.value)
        assert message.startswith("the emulated account did not start: ")
        assert str(folder) in message and "\n" not in message


def test_a_full_disk_is_named(tmp_path):
    script = """
import resource, sys
from pathlib import Path
from aws_emulator import account
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    account.start(Path(sys.argv[1]))
except account.AccountFault as fault:
    print(fault)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "account")]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert ended.stdout == "the emulated account did not start: File too large\n"
    assert accounts.find(tmp_path / "account") is None


def test_error_contains_last_line_of_account_log(tmp_path, monkeypatch):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho first\necho No module named moto >&2\necho >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    folder = tmp_path / "account"
    with pytest.raises(AccountFault) as failed:
        accounts.start(folder)
    assert str(failed.value) == (
        f"the emulated account did not start: No module named moto (log: {folder}/account.log)"
    )
