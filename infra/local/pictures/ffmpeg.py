"""Videos, encoded by the program ffmpeg."""

import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory


class EncodingFailed(Exception):
    """ffmpeg gave up. The message is its last line."""


def installed() -> bool:
    """Return True if ffmpeg is on the path."""
    return shutil.which("ffmpeg") is not None


def mp4(frames: Iterable[bytes], size: tuple[int, int], frame_ms: int) -> bytes:
    """An MP4 of `frames`, each ``[H, W, 3]`` bytes of the `size` (W, H), shown for `frame_ms`.

    Equal frames give equal bytes with one version of ffmpeg. Raises `EncodingFailed`.
    """
    with TemporaryDirectory(prefix="marless-") as temporary:
        path = Path(temporary) / "video.mp4"
        encoder = subprocess.Popen(_command(path, size, frame_ms), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        assert encoder.stdin is not None
        # Where ffmpeg has given up, its own words say why.
        with suppress(BrokenPipeError):
            for frame in frames:
                encoder.stdin.write(frame)
        _, error_output = encoder.communicate()
        if encoder.returncode:
            lines = error_output.decode(errors="replace").split("\n")
            raise EncodingFailed(next((line for line in reversed(lines) if line.strip()), f"exit {encoder.returncode}"))
        return path.read_bytes()


def _command(path: Path, size: tuple[int, int], frame_ms: int) -> list[str]:
    width, height = size
    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"1000/{frame_ms}", "-i", "-"]
    # All players show even sizes, and colours at half the resolution.
    output_options = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white", "-pix_fmt", "yuv420p"]
    repeatable = ["-threads", "1", "-fflags", "+bitexact", "-flags:v", "+bitexact"]
    return ["ffmpeg", "-loglevel", "error", "-y", *source, *output_options, *repeatable, str(path)]
