"""The language model of a run whose agents speak: found, made where it is missing, and stored once for all runs."""

import hashlib
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from hashlib import file_digest
from importlib.metadata import version
from pathlib import Path

from safetensors import SafetensorError, safe_open

from coordinator.config.schema import RunConfig
from coordinator.drive.ports import Storage
from coordinator.errors import UserError
from functions import keys
from functions.algorithms.registry import algorithm
from functions.encoding import to_json
from functions.environments.base import EnvironmentFault, EnvTask
from functions.errors import BadRequest, KeyTaken, MissingExtra
from functions.language.adapter_layout import AdapterLayout
from functions.language.base_header import SCHEMA, read_header
from functions.language.base_request import BaseRequest, Training, lessons_of
from functions.language.errors import UnusableBase
from functions.language.registry import make
from functions.messages.message import Ref
from functions.messages.order import LanguageModel
from functions.system_errors import explain
from infra.local.file_storage import FileStorage
from marless import extras
from marless.output import note
from marless.program import cache_folder
from marless.reports import provenance

# Files of a folder that a model is read from.
_FILES = ("config.json", "tokenizer.json", "*.safetensors")
USUAL = Training()
"""How the small base of a task is made where nobody says."""


def store_model(config: RunConfig, storage: Storage) -> LanguageModel | None:
    """Stores the base by its hash; None where agents do not speak. On this machine it is a link to one file, however
    many runs have it.

    Raises `UserError` for a model that cannot be used, and `StorageFault`.
    """
    if not algorithm(config.algorithm.name).function:
        return None
    path = model_file(config)
    try:
        digest = _sha256_of(path)
        shape, size = read_header(path).shape, path.stat().st_size
        with safe_open(path, "numpy"):  # it looks whether the file is as long as it says
            pass
        layers = min(config.base.layers, shape.layers)
        AdapterLayout(shape, config.base.rank, layers)
    except UnusableBase as error:
        raise UserError(f"base.model: {error}") from error
    except SafetensorError as error:
        raise UserError(f"base.model: {path} is cut short or damaged ({error}); make it anew") from error
    except OSError as error:
        raise UserError(f"base.model: {path}: {explain(error)}") from error
    key = keys.object_key(f"rounds/model-{digest[:16]}", "base")
    with suppress(KeyTaken):  # of a run of this name that never began
        if isinstance(storage, FileStorage):
            storage.adopt(key, path)
        else:
            storage.put(key, path.read_bytes())
    return LanguageModel(base=Ref(key=key, sha256=digest, size=size), rank=config.base.rank, layers=layers)


def model_file(config: RunConfig) -> Path:
    """The file of the base that the configuration names, or of the small one of its task; raises `UserError`."""
    if config.base.model is None:
        return small_base(config.task)
    source = Path(config.base.model)
    if not source.exists():
        raise UserError(f"base.model: there is no file or folder {source}")
    if source.is_file():
        with suppress(UnusableBase, OSError):
            read_header(source)
            return source
    extras.require("language", f"base.model={source}")
    request = BaseRequest(target=str(_cache_file(_digest_of(source))), source=str(source.resolve()))
    return _file_of(request, f"reads {source}, once for this machine")


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
    program = (provenance.code_sha256(packages=("functions",)), version("torch"), provenance.machine())
    names = (*program, symbols.symbols, language_task.context, training)
    digest = hashlib.sha256(to_json(names) + b"".join(lesson.tokens.tobytes() for lesson in lessons)).hexdigest()
    request = BaseRequest(target=str(target or _cache_file(digest)), task=task, training=training)
    once = "" if target else ", once for this machine"
    return _file_of(request, f"makes a small language model for {task.name}{once}")


def _cache_file(digest: str) -> Path:
    return cache_folder() / "models" / f"{digest[:32]}{keys.OBJECT_SUFFIX}"


def _file_of(request: BaseRequest, doing: str) -> Path:
    """The file, made in a process of its own unless it is there."""
    target = Path(request.target)
    if target.is_file():
        return target
    note(doing)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"base.model: {target.parent}: {explain(error)}") from error
    command = (sys.executable, "-m", "functions.language.base_maker")
    maker = subprocess.run(command, input=to_json(request), capture_output=True, check=False)
    lines = maker.stderr.decode("utf-8", "replace").strip().splitlines()
    if maker.returncode:
        raise UserError(f"base.model: {lines[-1] if lines else f'its maker ended with {maker.returncode}'}")
    return target


def _digest_of(source: Path) -> str:
    """A hash of what a model is read from."""
    digest = hashlib.sha256(str(SCHEMA).encode())
    for path in _files_of(source):
        digest.update(path.name.encode() + bytes.fromhex(_sha256_of(path)))
    return digest.hexdigest()


def _sha256_of(path: Path) -> str:
    """Of a file, which is read once for all runs of a study; raises `OSError`."""
    stat = path.stat()
    return _sha256(path, (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns))


@cache
def _sha256(path: Path, version: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _files_of(source: Path) -> Iterable[Path]:
    if source.is_file():
        return [source]
    return sorted(path for pattern in _FILES for path in source.glob(pattern))
