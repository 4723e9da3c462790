"""The files of a run's code (code.json), by name with a hash, and whether an answer comes from the same files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from marless.coordinator.config.schema import RunConfig
from marless.coordinator.file_reading import read_json
from marless.functions import keys
from marless.functions.encoding import to_json_file
from marless.functions.isolation.file_names import ABSENT, KEPT, LOADED, WRITTEN
from marless.program import program_name
from marless.reports import provenance
from marless.reports.atomic_files import replace, storage_errors
from marless.reports.provenance import CodeChange
from marless.reports.user_code.user_files import named_files, value_here
from marless.runs.folder import CODE, IDENTITY, Identity, RunFolder

# Parts of a run's origin that are no code.
_NO_CODE = ("machine", "gpu")
_LIBRARIES = ("program", "python", "numpy", "torch")


class CodeFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of code.json: values by name, the names of files that only other machines had,
    and earlier values of files that have changed."""

    files: dict[str, str] = {}
    elsewhere: tuple[str, ...] = ()
    earlier: dict[str, tuple[str, ...]] = {}


class _Origin(msgspec.Struct, frozen=True):
    code_sha256: str = ""
    environment_fingerprint: dict[str, Any] = {}
    changes: tuple[CodeChange, ...] = ()


class CodeRecord:
    """The files of the run in a `folder`, or the files that all runs of a study share. Users resume it as `argument`.

    The first value of a file is the run's value. `shared` is the record of the run's study.
    """

    def __init__(self, folder: Path, argument: str, shared: Self | None = None) -> None:
        self._path, self._argument, self._shared = folder / CODE, argument, shared
        present = read_json(self._path, CodeFiles) if self._path.exists() else CodeFiles()
        self.files, self._elsewhere, self._earlier = dict(present.files), {*present.elsewhere}, dict(present.earlier)
        # The names of files that the run's processes write: these are no longer compared.
        self._written = {name for name, value in self.files.items() if value == WRITTEN}

    def begin(self, config: RunConfig) -> str:
        """Record the files that a configuration names. Return why the run cannot begin with them, or ''.

        Raises `StorageFault`.
        """
        files = named_files(provenance.modules_of(config), (each.command for each in config.resources.values()))
        if self._shared is not None:
            program = provenance.program_parts()
            if fault := self._shared.fault({**files, **program}) or self._shared.fault_here():
                return fault
        self._add({name: value for name, value in files.items() if name not in self.files}, "")
        return ""

    def refusal(self, values: Mapping[str, str], place: str) -> str:
        """Return why an answer from these files is refused, or ''. `place` is another machine's name.

        Raises `StorageFault`.
        """
        for record in (self._shared, self):
            if record is not None and (fault := record.fault(values, place)):
                return fault
        return ""

    def fault(self, values: Mapping[str, str], place: str = "") -> str:
        """Return the file that differs and the remedy, or ''. If no file differs, record the values. Raises
        `StorageFault`."""
        self._written |= {name for name, value in values.items() if value == WRITTEN}
        values = {name: value for name, value in values.items() if name.removeprefix(KEPT) not in self._written}
        self._add({name: WRITTEN for name in self._written if self.files.get(name, WRITTEN) != WRITTEN}, place)
        for name, value in values.items():
            if name.startswith((KEPT, LOADED)):
                if fault := self._fault_of_old(name, value):
                    return fault
                continue
            # A file that was edited while a task read it has two values, and no run has both.
            first, _, second = value.partition(", ")
            # A machine that is not this one must have the files of this one.
            expected = self.files.get(name) or (known_here(name) if place else None) or first
            if value != expected:
                return self._line(CodeChange(part=name, before=expected, after=second or value), place)
        fresh = {name: value for name, value in values.items() if name not in self.files}
        fresh = {name: value for name, value in fresh.items() if not name.startswith((KEPT, LOADED))}
        self._add(fresh, place)
        return ""

    def fault_here(self) -> str:
        """Return the file that differs here by now and the remedy, or ''."""
        return self._line(changes[0], "") if (changes := self.changes()) else ""

    def changes(self) -> list[CodeChange]:
        """Return which files differ here by now."""
        now = {name: value_here(name) for name in self.files if name not in (*_LIBRARIES, *self._written)}
        differing = [name for name, value in now.items() if value != self.files[name]]
        return [
            CodeChange(part=name, before=self.files[name], after=now[name])
            for name in differing
            if now[name] != ABSENT or name not in self._elsewhere
        ]

    def accept(self) -> None:
        """From now on the files that are here are the run's. Raises `StorageFault`."""
        changes = self.changes()
        for change in changes:
            self._earlier[change.part] = (*self._earlier.get(change.part, ()), self.files[change.part])
        self._add({change.part: change.after or ABSENT for change in changes}, "")

    def _fault_of_old(self, old: str, value: str) -> str:
        """Return why a kept answer, or a module that was loaded before, does not belong to the run, '' if it does."""
        name = old.removeprefix(KEPT).removeprefix(LOADED)
        expected = self.files.get(name, value)
        if old.startswith(LOADED):
            edited = f"{name} was edited after this process loaded it: it was {value} and is {expected}"
            return f"{edited}; start Python again, or reload the module" if value != expected else ""
        if value == expected or value in self._earlier.get(name, ()):
            return ""
        change = CodeChange(part=name, before=expected, after=value)
        return f"{change} in a kept answer; delete the run's {keys.ANSWERS}, which are then asked again"

    def _line(self, change: CodeChange, place: str) -> str:
        if place:
            return (
                f"{place} has another {change.part}: {change.after}, the run's is {change.before}; copy that file there"
            )
        if self._shared is None and not self._argument:
            return f"{change}, and all runs of a study have the same code; put it back, or start another study"
        again = f"{program_name()} resume {self._argument} --changed-code"
        return f"{change}; put it back, or continue with the changed code: {again}"

    def _add(self, values: Mapping[str, str], place: str) -> None:
        if not values:
            return
        self.files |= values
        if place:
            self._elsewhere |= {name for name in values if known_here(name) is None}
        files, elsewhere = dict(sorted(self.files.items())), tuple(sorted(self._elsewhere))
        body = CodeFiles(files=files, elsewhere=elsewhere, earlier=self._earlier)
        with storage_errors(self._path):
            replace(self._path, to_json_file(body), durable=True)


def known_here(name: str) -> str | None:
    """Return the value of the file here, or None."""
    return None if (value := value_here(name)) == ABSENT else value


def code_of_run(folder: Path) -> dict[str, str]:
    """Return values of a run's code by name: of the program, the libraries that compute, its packages and its files."""
    present = read_json(folder / CODE, CodeFiles).files if (folder / CODE).exists() else {}
    files = {name: value for name, value in present.items() if value != WRITTEN}
    origin = read_json(folder / IDENTITY, _Origin)
    fields = {"program": origin.code_sha256, **origin.environment_fingerprint}
    parts = fields | fields.pop("resources", {}) | {change.part: change.after for change in origin.changes}
    code: dict[str, str] = {}
    for part, value in parts.items():
        if value and part in _LIBRARIES:
            code[part] = value
        elif value and part not in (*_NO_CODE, *files):
            package, _, digest = value.partition(" ")
            code |= {} if f"{package}.py" in files else {package: digest}
    return code | files


def changes_here(folder: RunFolder, identity: Identity, config: RunConfig) -> list[CodeChange]:
    """Return the parts of a run and the files of its code that are different here.

    A part that is one module names it, so that its file is left out.
    """
    parts = provenance.changes(identity.parts, provenance.parts_of(config))
    modules = {f"{(change.before or '').partition(' ')[0]}.py" for change in parts}
    files = CodeRecord(folder.path, folder.argument).changes()
    return [*parts, *(change for change in files if change.part not in modules)]


def remark(folder: RunFolder, identity: Identity, config: RunConfig) -> str:
    """Return which code here differs from the run's code, or ''. For commands that play the run's policies."""
    changes = changes_here(folder, identity, config)
    differing = [change for change in changes if change.part not in ("program", *_NO_CODE)]
    return f"{folder.name} was trained by other code: {', '.join(map(str, differing))}" if differing else ""
