"""The path of an animation that a notebook shows below its cell."""

from base64 import b64encode
from html import escape
from pathlib import PosixPath


class ReplayFile(PosixPath):
    """The path; an ``.mp4`` is shown as its path alone."""

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if self.suffix == ".gif" and self.is_file():
            # Saved pages show HTML and no image/gif.
            picture = b64encode(self.read_bytes()).decode()
            bundle["text/html"] = f'<img src="data:image/gif;base64,{picture}" alt="{escape(self.name)}">'
        return bundle
