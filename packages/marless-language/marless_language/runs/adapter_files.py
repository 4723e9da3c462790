"""Adapters of agents that speak, as files that peft, vLLM and LoRAX load. They come by role, with the base if Hugging
Face's packages have no folder of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from numpy.typing import NDArray

from marless.coordinator.errors import UserError
from marless.extras import require
from marless.functions import codec
from marless.functions.messages.order import LanguageModel
from marless.runs.folder import RunFolder
from marless.runs.stored_run import Stored, look
from marless_language.adapter_layout import AdapterLayout
from marless_language.errors import UnusableBase
from marless_language.specs import adapter_name

BASE = "base"
"""The folder of the base beside those of the roles."""


def adapter_files(folder: RunFolder, best: bool = False, role: str | None = None) -> tuple[dict[str, bytes], list[str]]:
    """Return the files by name, and the roles of their adapters: all in separate folders, or `role` alone.

    Raises `UserError` for an unknown role, and for a run of agents that do not speak.
    """
    require("learner", "--to peft")
    with look(folder) as run:
        state, model = run.saved_state, run.plan.inputs.language_model
        if model is None or state.team is None:
            raise UserError(f"{folder.name} has no adapters, as its agents do not speak; use --to onnx or torch")
        if best and state.best is None:
            raise UserError(f"{folder.name} was not evaluated yet; leave --best away")
        policies = state.best.policies if best and state.best else state.policies
        tensors = codec.fetch_tensors(run.storage, policies)
        every = state.env_spec.agents
        if role is not None and role not in every:
            raise UserError(f"--role {role}: {folder.name} has the roles {', '.join(every)}")
        path = folder.path / "objects" / model.base.key
        base_folder = _base_folder(run)
        roles = [role] if role else [*every]
        adapters = {name: tensors[adapter_name(state.team.groups[every.index(name)])] for name in roles}
    try:
        return _written(path, model, adapters, base_folder, role is not None), roles
    except (OSError, UnusableBase) as error:
        raise UserError(f"{folder.name}: {error}") from error


def _base_folder(run: Stored) -> str:
    """The folder of the base where Hugging Face's packages load it from, or ''."""
    source = run.plan.config.base.model
    return str(Path(source).resolve()) if source and Path(source).is_dir() else ""


def _written(
    path: Path, model: LanguageModel, adapters: Mapping[str, NDArray[Any]], base_folder: str, alone: bool
) -> dict[str, bytes]:
    from marless_language.model.base_model import open_base
    from marless_language.model.peft_format import write_adapter, write_base

    base = open_base(path)
    layout = AdapterLayout(base.shape, model.rank, model.layers)
    with TemporaryDirectory(prefix="marless-") as temporary:
        root = Path(temporary)
        for name, adapter in adapters.items():
            target = root if alone else root / name
            target.mkdir(exist_ok=True)
            write_adapter(layout, adapter, target, base_folder or (BASE if alone else f"../{BASE}"))
        if not base_folder:
            (root / BASE).mkdir()
            write_base(base, root / BASE)
        return {str(file.relative_to(root)): file.read_bytes() for file in _files(root)}


def _files(root: Path) -> Sequence[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())
