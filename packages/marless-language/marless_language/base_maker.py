"""Makes the base of a run: from nothing by the lessons of a task, or of a model in a folder or file.

It can run as a program, ``python -m marless_language.base_maker``, with a `BaseRequest` in JSON on its standard input.
So a run's driver does without torch and the memory of a model. A user's mistake is one line and exit code 2.
"""

import os
import sys
from pathlib import Path

from marless.functions.encoding import from_json
from marless.functions.environments.base import EnvironmentFault
from marless.functions.errors import BadRequest, MissingExtra, foreign_errors
from marless.functions.system_errors import explain
from marless_language.base_request import BaseRequest, lessons_of
from marless_language.errors import UnusableBase
from marless_language.registry import make

# Tokens that a small base reads in addition to its task's tokens.
_ROOM = 15


def make_base(request: BaseRequest) -> bytes:
    """The base's object. Raises `UnusableBase`, `BadRequest`, `MissingExtra`, `EnvironmentFault` and `OSError`."""
    try:
        from marless_language.model.base_model import convert
        from marless_language.model.pretraining import Pretraining, pretrain
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"a language model needs the package {error.name}: pip install 'marless[language]'"
        ) from error
    if request.task is None:
        try:
            return convert(Path(request.source))
        except OSError as error:
            file = error.filename or (error.args[0] if error.args else "")
            raise UnusableBase(f"{request.source}: {explain(error, 'copy it anew')} ({file})") from error
    task, seed = make(request.task), request.training.seed
    symbols, lessons = lessons_of(task, request.task.name, seed)
    return pretrain(lessons, symbols, task.context + _ROOM, seed, Pretraining(steps=request.training.steps))


def main() -> int:
    """Writes the file that the request names, whole or not at all. Returns the exit code."""
    request = from_json(sys.stdin.buffer.read(), BaseRequest)
    target = Path(request.target)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        body = make_base(request)
        part.write_bytes(body)
        part.replace(target)
    except (UnusableBase, BadRequest, MissingExtra, EnvironmentFault) as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{target}: {explain(error)}")
    except foreign_errors() as error:  # of a library that a damaged file surprises
        what = request.source or (request.task.name if request.task else "")
        return _failed(f"{what}: {type(error).__name__}: {' '.join(str(error).split())}; the file may be damaged")
    finally:
        part.unlink(missing_ok=True)  # it would fill a full disk even more
    return 0


def _failed(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
