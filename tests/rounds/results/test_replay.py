"""`marless replay`: its files, its teams, and mistakes in one line."""

import os
import stat
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from PIL import Image

import marless as public

MPE = ("task.name=mpe/simple_spread", "task.options.max_cycles=4", "task.agents=2")
TAG = ("task.name=mpe/simple_tag", "task.options.max_cycles=4")


def trained(marless, name, *settings):
    assert marless.train(name, *settings).code == 0


def test_replay_draws_every_state_repeatably(marless):
    trained(marless, "a", *MPE)
    said = marless("replay", "a", "--episodes", "2")
    assert (said.code, said.out, said.err) == (0, ["runs/a/replay.gif"], [])
    assert marless("replay", "--episodes", "2", "--out", "again.gif").out == ["again.gif"]
    first, again = Path("runs/a/replay.gif"), Path("again.gif")
    assert first.read_bytes() == again.read_bytes()
    # Four steps, and the state after them.
    assert Image.open(first).n_frames == 2 * 5
    assert public.replay("a", "api.gif", 2) == Path("api.gif")
    assert Path("api.gif").read_bytes() == first.read_bytes()
    with pytest.raises(public.UserError, match="episodes is 0; at least 1 is needed"):
        public.replay("a", episodes=0)


def test_another_team_is_drawn_beside(marless):
    trained(marless, "a", *MPE)
    trained(marless, "b", *MPE, "seed=5")
    assert marless("replay", "a", "--out", "alone.gif").code == 0
    width, height = Image.open("alone.gif").size
    for other in ("random", "b", "runs/b/policies.safetensors"):
        assert marless("replay", "a", "--beside", other, "--out", "both.gif").code == 0
        both = Image.open("both.gif").convert("RGB")
        assert both.size == (2 * width, height)
        # The same start state. Captions differ.
        picture = (0, 0, width, height - 34)
        assert both.crop(picture).tobytes() == both.crop((width, 0, 2 * width, height - 34)).tobytes()


@pytest.mark.parametrize(
    "settings",
    [
        (*MPE, "algorithm.name=ippo", "algorithm.recurrent=true"),
        (*TAG, "opponents.side=1"),
        (*MPE, "task.options.continuous_actions=true"),
        (*MPE, "task.last_action=true"),
    ],
    ids=["recurrent", "random opponents", "continuous", "last action"],
)
def test_every_kind_of_team_plays(marless, settings):
    trained(marless, "a", *settings)
    assert marless("replay", "a", "--episodes", "2", "--beside", "random").err == []
    assert Image.open("runs/a/replay.gif").n_frames == 2 * 5


def test_fixed_opponents_play_their_policies(marless):
    trained(marless, "first", *TAG)
    trained(marless, "second", *TAG, "opponents.side=1", "opponents.policies=first")
    assert marless("replay", "second", "--episodes", "1").err == []
    assert Image.open("runs/second/replay.gif").n_frames == 5


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("nowhere",), "marless: there is no run nowhere"),
        (("a", "--episodes", "0"), "marless: argument --episodes: '0' is not a positive whole number"),
        (("a", "--out", "team.png"), "marless: team.png: the file's name has to end in .gif or .mp4"),
        (
            ("a", "--live"),
            "marless: --live needs a display: neither DISPLAY nor WAYLAND_DISPLAY is set; without one write a file:",
        ),
        (("a", "--live", "--out", "team.png"), "marless: team.png: the file's name has to end in .gif or .mp4"),
        (("a", "--out", "gone/team.gif"), "marless: gone/team.gif: there is no folder gone"),
        (("a", "--beside", "nowhere"), "marless: --beside: there is no run nowhere"),
        (
            ("a", "--beside", "toy"),
            "marless: --beside toy: it was trained on another task (toy/signal, or other options)",
        ),
        (("toy",), "marless: toy/signal: the task cannot be drawn: its environment has no method render(index)"),
        (
            ("a", "--out", "team.mp4"),
            "marless: team.mp4: the program ffmpeg, which makes .mp4, is not on the path; install it or write a .gif",
        ),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_a_mistake_is_one_line_and_writes_nothing(marless, shell, words, line):
    trained(marless, "a", *MPE, "stop.rounds=1")
    trained(marless, "toy", "stop.rounds=1")
    shell.export(PATH="")
    shell.unset("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    said = marless("replay", *words)
    assert (said.code, len(said.err)) == (2, 1)
    assert said.err[0].startswith(line)
    assert not list(Path().glob("*.*")) and not Path("runs/a/replay.gif").exists()


def test_window_plays_until_closed_then_file_is_written(marless, shell):
    pygame = pytest.importorskip("pygame")
    trained(marless, "a", *MPE)
    shell.export(SDL_VIDEODRIVER="dummy")
    sizes = []

    def close_it():
        while not (pygame.display.get_init() and pygame.display.get_surface()):
            time.sleep(0.01)
        sizes.append(pygame.display.get_surface().get_size())
        pygame.event.post(pygame.event.Event(pygame.QUIT))

    user = threading.Thread(target=close_it)
    user.start()
    said = marless("replay", "a", "--live", "--out", "team.gif")
    user.join()
    keys = "space: pause   right arrow: one step   r: the episode again   n: the next episode   q: quit"
    assert (said.code, said.out, said.err) == (0, [keys, "team.gif"], [])
    assert sizes == [Image.open("team.gif").size]
    assert not pygame.display.get_init()
    assert not Path("runs/a/replay.gif").exists()


def test_a_run_whose_policies_are_gone_says_so(marless):
    trained(marless, "a", *MPE, "sharing.rule=none", "placement.rule=split")
    *_, last = sorted(Path("runs/a/objects").rglob("*policies.safetensors"))
    last.unlink()
    said = marless("replay", "a")
    assert said.code == 2
    assert said.err == ["marless: a: objects of its newest policies are missing; see marless runs verify a"]


def program(folder, text):
    path = folder / "bin" / "ffmpeg"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return os.pathsep.join([str(path.parent), os.environ["PATH"]])


def test_every_pixel_of_a_video_reaches_ffmpeg(marless, shell, tmp_path):
    trained(marless, "a", *MPE)
    # The last argument is the file.
    shell.export(PATH=program(tmp_path, 'for file; do :; done; cat > "$file"'))
    assert marless("replay", "a", "--episodes", "1", "--out", "team.mp4").out == ["team.mp4"]
    # Four frames, and the last for ten times as long, of 408 x 438 pixels.
    assert Path("team.mp4").stat().st_size == (4 + 10) * 408 * 438 * 3


def test_ffmpegs_own_error_is_the_line(marless, shell, tmp_path):
    trained(marless, "a", *MPE)
    shell.export(PATH=program(tmp_path, "echo no such encoder >&2; exit 1"))
    said = marless("replay", "a", "--out", "team.mp4")
    assert (said.code, said.err) == (2, ["marless: ffmpeg: no such encoder"])
    assert not Path("team.mp4").exists()
