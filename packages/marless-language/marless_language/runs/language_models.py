"""The language model of a run with agents that speak: found, or made if it is missing, and stored once for all runs."""

import hashlib
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from safetensors import SafetensorError, safe_open

from marless import extras
from marless.coordinator.config.schema import RunConfig
from marless.coordinator.drive.ports import Storage
from marless.coordinator.errors import UserError
from marless.functions import keys
from marless.functions.encoding import to_json
from marless.functions.environments.base import EnvironmentFault, EnvTask
from marless.functions.errors import BadRequest, KeyTaken, MissingExtra
from marless.functions.messages.message import Ref
from marless.functions.messages.order import LanguageModel
from marless.functions.system_errors import explain
from marless.infra.local.file_storage import FileStorage
from marless.program import cache_folder
from marless.reports import provenance
from marless.signals import end, handle_signals
from marless_language.adapter_layout import AdapterLayout
from marless_language.base_header import SCHEMA, LlamaShape, read_header
from marless_language.base_request import BaseRequest, Training, lessons_of
from marless_language.errors import UnusableBase
from marless_language.registry import make
from marless_language.runs.bounded_program import ProgramLimits, TookTooLong, run
from marless_language.runs.model_cache import cached_file, copy_of, may_be_linked, sha256_of

_LOGGER = logging.getLogger("marless.language")

# Files of a folder that decide which of its contents are read.
_FILES = ("*.json", "*.safetensors", "adapter_*")
_GGUF = b"GGUF"
_MAKER = "marless_language.base_maker"
# Bounds of the process that makes a base. Numbers of a GGUF file may be a twentieth as long as numbers in single
# precision. In the end there are two copies in single precision.
_LEAST_S, _S_OF_MB, _S_OF_STEP = 600.0, 1.0, 1.0
_LEAST_MB, _MB_OF_MB, _MB_OF_FOLDER, _MB_OF_TASK = 3072, 48, 8, 8192
USUAL = Training()
"""How the small base of a task is made where nobody says."""


def store_model(config: RunConfig, storage: Storage) -> LanguageModel:
    """Stores the base by its hash. On this machine it is a link to this program's own
    file, however many runs have it.

    Raises `UserError` for a model that cannot be used, and `StorageFault`.
    """
    path = model_file(config)
    try:
        digest = sha256_of(path)
        shape, size = _shape_of(path), path.stat().st_size
        layers = min(config.base.layers, shape.layers)
        AdapterLayout(shape, config.base.rank, layers)
        key = keys.object_key(f"rounds/model-{digest[:16]}", "base")
        with suppress(KeyTaken):  # of a run of this name that never began
            if isinstance(storage, FileStorage) and may_be_linked(path, config.base.model):
                storage.adopt(key, path)
            else:
                storage.put(key, _body(path, digest))
    except UnusableBase as error:
        raise UserError(f"base.model: {error}") from error
    except OSError as error:
        raise UserError(f"base.model: {path}: {explain(error)}") from error
    return LanguageModel(base=Ref(key=key, sha256=digest, size=size), rank=config.base.rank, layers=layers)


def _shape_of(path: Path) -> LlamaShape:
    """Of the base in a file. Raises `UnusableBase` without a base, and if the file's length differs from its header."""
    shape = read_header(path).shape
    try:
        with safe_open(path, "numpy"):
            return shape
    except SafetensorError as error:
        raise UnusableBase(f"{path} is cut short or damaged ({error}); make it anew") from error


def _body(path: Path, digest: str) -> bytes:
    body = path.read_bytes()
    if hashlib.sha256(body).hexdigest() != digest:
        raise UnusableBase(f"{path} changed while it was read; do the same again")
    return body


def model_file(config: RunConfig) -> Path:
    """This program's own file of the base that the configuration names, or of the small base of its task. Raises
    `UserError`. Where the cache cannot be written it is the user's."""
    if config.base.model is None:
        return small_base(config.task)
    source = Path(config.base.model)
    if not source.exists():
        raise UserError(f"base.model: there is no file or folder {source}")
    if source.is_file():
        try:
            with source.open("rb") as file:
                is_gguf = file.read(len(_GGUF)) == _GGUF
            if not is_gguf:
                _shape_of(source)
                return _copied(source)
        except UnusableBase as error:
            raise UserError(f"base.model: {error}") from error
        except OSError as error:
            raise UserError(f"base.model: {source}: {explain(error)}") from error
    extras.require("language", f"base.model={source}")
    return _converted(source)


def _copied(source: Path) -> Path:
    try:
        return copy_of(source)
    except OSError:  # of the cache; the run gets a copy of its own
        return source


def _converted(source: Path) -> Path:
    size = sum(path.stat().st_size for path in _files_of(source)) >> 20
    bounds = ProgramLimits(
        _LEAST_S + _S_OF_MB * size, _LEAST_MB + (_MB_OF_MB if source.is_file() else _MB_OF_FOLDER) * size
    )
    digest = _digest_of(source)

    def make(part: Path) -> None:
        _LOGGER.info("reads %s, once for this machine", source)
        _make(BaseRequest(target=str(part), source=str(source.resolve())), bounds)
        if _digest_of(source) != digest:
            raise UserError(f"base.model: {source} changed while it was read; do the same again")

    return _cached(digest, make)


def small_base(task: EnvTask, training: Training = USUAL, target: Path | None = None) -> Path:
    """A small base that has learned from the task's teacher, in a file that is made once for this machine, or in
    `target`. Raises `UserError`."""
    try:
        language_task = make(task)
        symbols, lessons = lessons_of(language_task, task.name, training.seed)
    except (BadRequest, EnvironmentFault, MissingExtra) as error:
        raise UserError(str(error)) from error
    extras.require("learner", f"a small base for {task.name}")
    # The process that makes it imports nothing else of the program.
    program = (_code(), version("torch"), provenance.machine())
    names = (*program, symbols.symbols, language_task.context, training)
    digest = hashlib.sha256(to_json(names) + b"".join(lesson.tokens.tobytes() for lesson in lessons)).hexdigest()
    bounds = ProgramLimits(_LEAST_S + _S_OF_STEP * training.steps, _MB_OF_TASK)

    def make_it(part: Path) -> None:
        often = "" if target else ", once for this machine"
        _LOGGER.info("makes a small language model for %s%s", task.name, often)
        _make(BaseRequest(target=str(part), task=task, training=training), bounds)

    if target is None:
        return _cached(digest, make_it)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"base.model: {target.parent}: {explain(error)}") from error
    make_it(target)
    return target


def task_base(task: EnvTask, seed: int, steps: int, target: Path) -> Path:
    """Make the small base of a task in `target`. Raises `UserError`."""
    return small_base(task, Training(seed=seed, steps=steps), target)


def _cached(digest: str, make_it: Callable[[Path], None]) -> Path:
    try:
        return cached_file(digest, make_it)
    except OSError as error:
        raise UserError(f"base.model: {cache_folder() / 'models'}: {explain(error)}") from error


def _make(request: BaseRequest, bounds: ProgramLimits) -> None:
    """Makes the file in a separate process. A signal ends that process together with this call."""
    what, target = request.source or (request.task.name if request.task else ""), Path(request.target)
    try:
        with handle_signals(end):
            code, errors = run(_MAKER, to_json(request), bounds)
    except TookTooLong:
        raise UserError(f"base.model: {what}: it was not made within {bounds.seconds:.0f} s; is it damaged?") from None
    finally:
        for part in target.parent.glob(f".{target.name}.*"):  # of a maker that was killed
            part.unlink()
    if code:
        lines = errors.strip().splitlines()
        last = lines[-1] if lines and code > 0 else f"its maker ended with {code}, within {bounds.memory_mb:,} MB"
        raise UserError(f"base.model: {last if what in last else f'{what}: {last}'}")


def _code() -> str:
    """Return the hashes of the code that makes bases."""
    package = provenance.code_sha256(Path(__file__).parents[2], ("marless_language",))
    return f"{provenance.code_sha256(packages=('marless/functions',))} {package}"


def _digest_of(source: Path) -> str:
    """A hash of the files of a model, and of the program that reads them."""
    digest = hashlib.sha256(f"{SCHEMA} {_code()}".encode())
    for path in _files_of(source):
        digest.update(path.name.encode() + bytes.fromhex(sha256_of(path)))
    return digest.hexdigest()


def _files_of(source: Path) -> Iterable[Path]:
    if source.is_file():
        return [source]
    return sorted({path for pattern in _FILES for path in source.glob(pattern) if path.is_file()})
