"""Greedy episodes of a team as an animated GIF."""

import io
from dataclasses import dataclass

import msgspec

from coordinator.replay.picture import Picture, picture
from coordinator.reports.policy import TeamPolicy
from functions.environments import registry
from functions.policies import draws
from functions.randomness import generator

_FRAME_MS, _LAST_MS = 80, 500
_CAPTION = 36


@dataclass(frozen=True)
class Frame:
    """The state before step `step` of an episode, and the rewards so far, summed over agents."""

    picture: Picture
    episode: int
    step: int
    total: float
    # An environment resets itself at an episode's end, so this is the state before the last step.
    last: bool


def play(team: TeamPolicy, episodes: int, seed: int) -> list[Frame]:
    """Greedy episodes on start states that no evaluation sees; raises what `registry.make` raises, and `UserError`."""
    task = team.task
    if task.name.startswith("pettingzoo:"):
        task = msgspec.structs.replace(task, options=task.options | {"render_mode": "rgb_array"})
    environment = registry.make(task, 1)
    frames: list[Frame] = []
    try:
        player, spec = team.player(1), environment.spec
        seen = environment.reset(generator(seed, "replay"))
        for episode in range(1, episodes + 1):
            chance = draws(spec, spec.horizon, 1, generator(seed, "replay", "opponents", episode))
            total, step, ended = 0.0, 0, False
            while not ended:
                drawn = picture(environment)
                choice = player.act(seen, chance=tuple(part[step] for part in chance))
                result = environment.step(choice.played)
                player.forget(result.ended)
                seen, ended = result.observation, bool(result.ended[0])
                frames.append(Frame(drawn, episode, step, total, ended))
                total, step = total + float(result.rewards.sum()), step + 1
    finally:
        environment.close()
    return frames


def gif(frames: list[Frame], episodes: int, title: str) -> bytes:
    """The bytes of the GIF, with a caption below every picture."""
    from PIL import Image, ImageDraw

    images: list[Image.Image] = []
    for frame in frames:
        height, width, _ = frame.picture.shape
        image = Image.new("RGB", (width, height + _CAPTION), "white")
        image.paste(Image.fromarray(frame.picture))
        figures = f"episode {frame.episode} of {episodes}  step {frame.step}  return {frame.total:.2f}"
        ImageDraw.Draw(image).multiline_text((6, height + 4), f"{title}\n{figures}", fill="black")
        # A last pixel that differs keeps Pillow from joining equal frames.
        image.putpixel((width - 1, height + _CAPTION - 1), (255, 255, 255 if len(images) % 2 else 0))
        images.append(image.quantize(64))
    body = io.BytesIO()
    durations = [_LAST_MS if frame.last else _FRAME_MS for frame in frames]
    images[0].save(body, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return body.getvalue()
