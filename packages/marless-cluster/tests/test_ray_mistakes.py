"""A missing or unsuitable cluster of Ray gives one line. Conformance tests cover the work of a cluster."""

import json
import socket
from functools import partial
from pathlib import Path

import pytest
from commands import SMALL, Commands
from dialled_in import free_port, head_at
from msgspec.structs import replace
from studies import settings_of, study

from marless import ablate
from marless import study as study_of
from marless.coordinator.errors import USER_ERROR, UserError
from marless.studies.study_file import load
from marless.studies.train_study import open_study
from marless_cluster.ray.cluster import RayError, connect
from marless_cluster.ray.head import trouble

# As Ray 2.60 prints them at the end of a traceback.
ASKS_FOR_A_TOKEN = (
    "ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: Authentication token is missing or incorrect."
)
HAS_NO_TOKEN = "Token authentication is enabled but Ray couldn't find an authentication token. Create a token file"
ANOTHER_VERSION = "RuntimeError: Ray version mismatch: cluster has Ray version 2.61.0 but local Ray version is 2.60.0"
COMMANDS = [("train", *SMALL), ("study", "lr.toml"), ("ablate", *SMALL, "--seeds", "1", "--arms", "packed")]


@pytest.fixture
def ray(tmp_path, shell):
    """Makes Ray installed and not connected: any other request is an `AttributeError`. Its check of heads is a process
    with this program."""

    def install(version="2.60.0", check="", services="def canonicalize_bootstrap_address(name): raise ConnectionError"):
        for module, text in {
            "__init__": f"__version__ = '{version}'\ndef is_initialized(): return False\n",
            "scripts/scripts": check,
            "_private/services": services,
        }.items():
            path = tmp_path / "packages/ray" / f"{module}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        shell.uninstall("ray")
        shell.forget("ray")
        shell.import_from(tmp_path / "packages")
        shell.export(PYTHONPATH=str(tmp_path / "packages"))

    shell.unset("RAY_ADDRESS", "RAY_AUTH_MODE")
    return install


@pytest.fixture
def head():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def nobody():
    return f"127.0.0.1:{free_port()}"


@pytest.fixture
def marless(tmp_path, shell, capfd):
    """Commands of this process, in a folder that has a study's file."""
    shell.cd(tmp_path)
    study(tmp_path / "lr.toml", *settings_of(["ippo-signal"]))
    return Commands(capfd)


def test_too_old_version_is_named_with_first_supported(ray):
    ray("1.13.0")
    with pytest.raises(RayError, match=r"^Ray 1\.13\.0 is too old; 2\.60 is the first that fits: pip install -U ray$"):
        connect("auto", print)


@pytest.mark.parametrize("text", ["nonsense", "host:", ":6379", "host:port", "host:65536"])
def test_text_without_head_address_is_named(text):
    assert trouble(text).endswith("is no address of a Ray head: HOST:PORT, auto or local")


def test_address_without_listener_is_no_head(nobody):
    assert trouble(nobody) == f"no Ray head answers at {nobody}: Connection refused"


def test_address_of_ray_client_is_no_head():
    assert trouble("ray://here:10001").startswith("ray://here:10001 is for Ray's client; start marless on a node")


def test_address_of_ray_jobs_is_no_head():
    assert trouble("http://127.0.0.1:8265") == (
        "http://127.0.0.1:8265 is the address of Ray's jobs; name the head, whose port is 6379: RAY_ADDRESS=HOST:PORT"
    )


def test_a_head_that_says_nothing_is_given_up(ray, head):
    host, port = head.split(":")
    ray(check=f"import socket\nsocket.create_connection(('{host}', {port})).recv(1)")
    assert trouble(head, 0.5) == f"what answers at {head} did not say within 0.5 s that it is a Ray head"


@pytest.mark.parametrize(
    ("said", "mode", "line"),
    [
        ("grpc: unknown service", "", "what answers at {} is no Ray head"),
        (ASKS_FOR_A_TOKEN, "", "the Ray head at {} asks for a token: set RAY_AUTH_MODE=token (the token is in"),
        (ASKS_FOR_A_TOKEN, "token", "the Ray head at {} asks for a token, which is not in RAY_AUTH_TOKEN,"),
        (HAS_NO_TOKEN, "token", "the Ray head at {} asks for a token, which is not in RAY_AUTH_TOKEN,"),
        (ANOTHER_VERSION, "", "the Ray head at {} is of another version: cluster has Ray version 2.61.0 but local"),
    ],
)
def test_output_of_ray_check_is_one_line(ray, head, shell, said, mode, line):
    ray(check=f"import sys\nsys.exit('Traceback:\\n' + {said!r})")
    shell.export(RAY_AUTH_MODE=mode)
    problem = trouble(head)
    assert problem.startswith(line.format(head)) and "\n" not in problem


def test_local_head_is_found_by_user_account(ray, nobody):
    ray()
    assert trouble("auto").startswith("no Ray head runs on this machine; 'ray start --head' starts one")
    ray(services=f"def canonicalize_bootstrap_address(name): return '{nobody}'")
    assert trouble("auto") == f"no Ray head answers at {nobody}: Connection refused"


def test_local_head_uses_user_token_automatically(ray, head, shell):
    check = f"import os, sys\nsys.exit(os.environ.get('RAY_AUTH_MODE') != 'token' and {ASKS_FOR_A_TOKEN!r})"
    ray(check=check, services=f"def canonicalize_bootstrap_address(name): return '{head}'")
    assert trouble("auto") == ""
    shell.export(RAY_AUTH_MODE="disabled")
    assert trouble("auto").startswith(f"the Ray head at {head} asks for a token: set RAY_AUTH_MODE=token")


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: argv[0])
def test_commands_without_ray_say_so_in_one_line(argv, ray, nobody, marless, shell):
    shell.uninstall("ray")
    lines = {"back-end ray needs packages that are not installed: ": marless(*argv, "--backend", "ray")}
    ray("2.9.0")
    lines["back-end ray: Ray 2.9.0 is too old; 2.60 is the first that fits: "] = marless(*argv, "--backend", "ray")
    ray()
    lines[f"back-end ray: no Ray head answers at {nobody}: "] = marless(*argv, "--backend", "ray", *head_at(nobody))
    for line, said in lines.items():
        assert said.code == USER_ERROR and said.err[-1].startswith(f"marless: {line}")
        assert all(" is now " in old for old in said.err[:-1])


@pytest.mark.parametrize("argv", COMMANDS, ids=lambda argv: argv[0])
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ('head = "127.0.0.1:6379"',),
            "an address (`head` of --machines) is for a cluster, and back-end local has none",
        ),
        (('token_file = "token"', "--backend", "ray"), "token_file needs `listen`"),
        (('listen = "127.0.0.1:0"', "--backend", "ray"), "--machines is for "),
    ],
)
def test_exclusive_worker_options_are_one_line(argv, options, line, ray, marless, shell):
    ray()
    shell.export(MARLESS_TOKEN="a token that both sides hold")
    Path("machines.toml").write_text(options[0])
    said = marless(*argv, "--machines", "machines.toml", *options[1:])
    assert said.code == USER_ERROR
    assert said.err[-1].startswith(f"marless: {line}")


def test_study_keeps_its_back_end_until_changed(ray, nobody, marless, shell, tmp_path):
    file = load(tmp_path / "lr.toml")
    folder = tmp_path / "studies/lr"
    folder.mkdir(parents=True)
    open_study(folder, replace(file, pool=replace(file.pool, backend="ray"))).save()
    ray()
    shell.export(RAY_ADDRESS=nobody)
    for name in ("lr", "lr.toml"):
        (line,) = marless("study", name).err
        assert line.startswith(f"marless: back-end ray: no Ray head answers at {nobody}: ")
    (line,) = marless("study", "lr", "--machines", "nowhere").err
    assert line.startswith("marless: 'nowhere' is not HOST:PORT")
    assert marless("study", "lr", "--backend", "local").code == 0
    assert marless("study", "lr").code == 0


def test_unusable_back_end_is_not_stored_in_study(ray, nobody, marless, tmp_path):
    ray()
    path = tmp_path / "lr.toml"
    text = path.read_text("utf-8")
    path.write_text(f'pool.backend = "rai"\n{text}', "utf-8")
    assert marless("study", "lr.toml").err[-1].startswith("marless: there is no back-end ")
    path.write_text(text, "utf-8")
    for name in ("aws", "rai"):
        with pytest.raises(UserError, match=name):
            study_of("lr.toml", backend=name, quiet=True)
    on_ray = ("--backend", "ray", *head_at(nobody))
    assert marless("study", "lr.toml", *on_ray).code == USER_ERROR
    assert not (tmp_path / "studies/lr/study.json").exists()
    assert marless("study", "lr.toml").code == 0
    assert marless("study", "lr", *on_ray).code == USER_ERROR
    assert marless("study", "lr").code == 0


def test_from_python_a_cluster_is_named_too(ray, nobody, marless):
    ray()
    packed = partial(ablate, seeds="1", arms=["packed"], task={"name": "toy/signal"})
    for call in (partial(study_of, "lr.toml"), packed):
        with pytest.raises(UserError, match=f"^back-end ray: no Ray head answers at {nobody}: "):
            call(backend="ray", address=nobody, quiet=True)
        with pytest.raises(UserError, match=r"^back-end aws: workers are on this machine or on a cluster: local, ray"):
            call(backend="aws", quiet=True)


def test_doctor_reports_whether_and_how_head_answers(ray, nobody, marless, shell):
    ray()
    shell.export(RAY_ADDRESS=nobody)
    head = json.loads(marless("doctor", "--json").out[0])["backends"]["ray"]["parts"][1]
    assert not head["ready"] and head["text"].startswith(f"no Ray head answers at {nobody}: Connection refused; ")
    assert "MB" in head["text"]
