"""The language model of this process's task: its base is opened once for all runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from typing import TYPE_CHECKING

from marless.functions.errors import BadRequest, CorruptObject, MissingExtra, StorageFault
from marless.functions.messages.message import Ref
from marless.functions.messages.order import LanguageModel
from marless.functions.storage_port import Blobs, Files
from marless.functions.system_errors import explain
from marless_language.errors import UnusableBase
from marless_language.model.shared_bytes import Below, SharedBytes

if TYPE_CHECKING:
    from marless_language.model.base_model import Base
    from marless_language.model.speaker import Speaker

# Of a model like SmolLM2 a text of 20 tokens has 46 KB.
_SHARED_BYTES = 256 * 2**20
_NEEDS_TORCH = "agents that speak need torch: pip install 'marless[language]'"


class Models:
    """Keeps the base that was used last, by the hash of its bytes, and a speaker for each size of its adapters."""

    def __init__(self, shared: SharedBytes) -> None:
        """Outputs below the adapters, by text, go to `shared`."""
        self._shared = shared
        self._base: tuple[str, Base] | None = None
        self._speakers: dict[tuple[int, int], Speaker] = {}
        self._bound: Speaker | None = None

    @property
    def speaker(self) -> "Speaker":
        """That of the task. Raises `BadRequest` outside of a block of `bind`."""
        if self._bound is None:
            raise BadRequest("the task names no language model")
        return self._bound

    @contextmanager
    def bind(self, model: LanguageModel, blobs: Blobs) -> Iterator[None]:
        """Within the block the task speaks by this model. Raises `BadRequest`, `MissingExtra`, `CorruptObject` and
        `StorageFault`."""
        self._bound = self._speaker(model, blobs)
        try:
            yield
        finally:
            self._bound = None

    def _speaker(self, model: LanguageModel, blobs: Blobs) -> "Speaker":
        try:
            from marless_language.adapter_layout import AdapterLayout
            from marless_language.model.speaker import Speaker
        except ModuleNotFoundError as error:
            raise MissingExtra(_NEEDS_TORCH) from error
        base, size = self._opened(model.base, blobs), (model.rank, model.layers)
        if size not in self._speakers:
            try:
                layout = AdapterLayout(base.shape, *size)
                below = Below(self._shared, f"{model.base.sha256} {layout.first} ".encode())
                self._speakers[size] = Speaker(base, layout, store=below)
            except UnusableBase as error:
                raise BadRequest(str(error)) from error
        return self._speakers[size]

    def _opened(self, ref: Ref, blobs: Blobs) -> "Base":
        if self._base is None or self._base[0] != ref.sha256:
            self._base, self._speakers = None, {}
            self._base = ref.sha256, _open(ref, blobs)
        return self._base[1]


def _open(ref: Ref, blobs: Blobs) -> "Base":
    from marless_language.model.base_model import open_base

    assert isinstance(blobs, Files)  # tasks are served with files
    path = blobs.file(ref.key, ref.sha256, ref.size)
    try:
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        if digest != ref.sha256:
            raise CorruptObject(f"{ref.key} is not the object the run recorded (its hash differs)")
        return open_base(path)
    except UnusableBase as error:
        raise BadRequest(str(error)) from error
    except OSError as error:
        raise StorageFault(f"cannot read {path}: {explain(error)}") from error


MODELS = Models(SharedBytes(_SHARED_BYTES))
"""Those of this process. Workers fork from one that has imported this."""
