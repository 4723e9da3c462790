"""The path of an animation that a notebook shows where a cell ends with it."""

from base64 import b64encode
from pathlib import PosixPath


class ReplayFile(PosixPath):
    """The path; an ``.mp4`` is shown as its path alone."""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if self.suffix == ".gif" and self.is_file():
            bundle["image/gif"] = b64encode(self.read_bytes()).decode()
        return bundle
