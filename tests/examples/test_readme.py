"""The commands of README.md are a session: in a fresh clone each line works after the lines before it.

The quick test types the lines of the first part in this process, with tiny settings. The slow test types all lines
unchanged in bash, in a clone with a space in its path. It also runs the Python blocks.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from marless.cli.app import main
from marless.extras import is_installed

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The first words of a block that is typed into a shell. Others show output.
_COMMANDS = ("make", "marless", "pip", ".")
# This test is part of it.
_SUITE = "make test"
# Settings of a run that takes a fraction of a second.
_TINY = ("actors.num_envs=8", "evaluation.every=1", "evaluation.episodes=2", "evaluation.final_episodes=2")
_EXTRAS = {"examples/relay.toml": "language", "relay": "language"}


def blocks():
    """The blocks of README.md that a reader types or runs, in order: a language ('' for a shell) and the text."""
    text = (ROOT / "README.md").read_text("utf-8")
    return [
        (language, body)
        for language, body in _BLOCK.findall(text)
        if language == "python" or (not language and body.split()[0] in _COMMANDS)
    ]


def commands():
    """The lines of the blocks for a shell, without their comments."""
    lines = [
        line.partition("  #")[0].strip() for language, body in blocks() if not language for line in body.splitlines()
    ]
    return [line for line in lines if line != _SUITE]


def local_commands():
    """The blocks in `marless` before the part about AWS, which needs a deployment."""
    lines = commands()
    return [line for line in lines[: lines.index("make install BACKEND=emulated")] if line.startswith("marless ")]


def tiny(line):
    """The words of a command, with one round (two where a run is resumed), two episodes and two rollouts."""
    words = shlex.split(re.sub(r"(--episodes|--rollouts) \S+", r"\1 2", line))
    rounds = f"stop.rounds={2 if words[0] == 'resume' else 1}"
    words = [rounds if word.startswith("stop.rounds=") else word for word in words]
    if words[0] in ("evaluate", "crossplay", "replay"):
        return [*words, "--episodes", "2"]
    return [*words, *_TINY, rounds] if words[0] in ("train", "config") else words


@pytest.mark.slow
def test_each_readme_line_works_after_earlier_lines(shell, tmp_path, capsys, no_processes):
    shell.cd(tmp_path)
    shutil.copytree(ROOT / "examples", "examples")
    study = Path("examples/lr.toml")
    base = "\n".join(["[base]", *_TINY, "stop.rounds = 1"])
    study.write_text(study.read_text("utf-8").replace("stop.rounds = 100", "").replace("[base]", base))
    assert main(["train", *_TINY, "stop.rounds=1"]) == 0  # `make train`
    for line in local_commands():
        words, _, target = line.removeprefix("marless ").partition(" > ")
        if any(word in _EXTRAS and not is_installed(_EXTRAS[word]) for word in shlex.split(words)):
            continue
        capsys.readouterr()
        assert main(tiny(words)) == 0, (line, capsys.readouterr().err)
        if target:
            Path(target).write_text(capsys.readouterr().out, "utf-8")


def test_files_of_readme_commands_are_ignored_by_git():
    written = ["my.toml", "comparison/report.html", "studies/lr/", "runs/latest"]
    words = {word for line in commands() for word in shlex.split(line)}
    assert {"my.toml", "comparison/report.html"} <= words
    done = subprocess.run(["git", "-C", ROOT, "check-ignore", *written], capture_output=True, text=True)
    if done.returncode == 128:
        pytest.skip("this is no git checkout")
    assert done.stdout.splitlines() == written


@pytest.mark.conformance
def test_readme_is_a_session_in_a_fresh_clone(tmp_path):
    clone = tmp_path / "a clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    session = "\n".join(body if not language else f"python - <<'END'\n{body}END\n" for language, body in blocks())
    lines = "\n".join(line for line in session.splitlines() if not line.startswith(_SUITE))
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    path = os.pathsep.join(folder for folder in inherited["PATH"].split(os.pathsep) if ".venv" not in folder)
    script = tmp_path / "session.sh"
    script.write_text(lines, "utf-8")
    done = subprocess.run(
        ["bash", "-e", script],
        stdin=subprocess.DEVNULL,
        cwd=clone,
        env={**inherited, "PATH": path},
        text=True,
        capture_output=True,
        timeout=5400,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    left = subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True, text=True, check=True)
    assert left.stdout == ""
