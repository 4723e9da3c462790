"""The files of language models that this machine keeps: a user's file is copied, an altered copy is noticed."""

import os
import stat
from pathlib import Path

import pytest
from language_runs import relay_base

from marless.coordinator.config.loading import load
from marless.coordinator.errors import UserError
from marless.infra.local.file_storage import FileStorage
from marless_language.runs.language_models import model_file, store_model
from marless_language.runs.model_cache import cached_file, copy_of, may_be_linked, sha256_of

SETTINGS = ["task.name=text/relay", "algorithm.name=grpo", "base.rank=2", "base.layers=1"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, shell) -> Path:
    shell.export(XDG_CACHE_HOME=str(tmp_path / "cache"))
    shell.cd(tmp_path)
    return tmp_path / "cache/marless/models"


def alter(path: Path, place: int = 1000) -> None:
    """Flips a byte, as a failing disk or a careless program does."""
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def stored(run: str, *settings: str) -> Path:
    model = store_model(load(None, [*SETTINGS, *settings]), FileStorage(Path(run)))
    assert model is not None
    return Path(run) / model.base.key


def test_runs_share_one_copy_of_user_file(tmp_path: Path):
    Path("mine.safetensors").write_bytes(relay_base())
    first, second = (stored(run, "base.model=mine.safetensors") for run in ("one", "two"))
    assert first.samefile(second) and not first.samefile("mine.safetensors")
    assert Path("mine.safetensors").stat().st_nlink == 1 and stat.S_IMODE(first.stat().st_mode) == 0o444
    Path("mine.safetensors").write_bytes(b"another model")
    assert first.read_bytes() == relay_base()


@pytest.mark.parametrize("name", ["itself", "a link"])
def test_user_named_file_of_cache_is_not_linked(cache: Path, name: str):
    Path("mine.safetensors").write_bytes(relay_base())
    kept = copy_of(Path("mine.safetensors"))
    if name == "a link":
        os.link(kept, "linked.safetensors")
    named = kept if name == "itself" else Path("linked.safetensors")
    assert not may_be_linked(kept, str(named))
    assert not stored("run", f"base.model={named}").samefile(kept)


def test_altered_copy_is_replaced_and_runs_stay_unchanged(cache: Path, caplog):
    Path("mine.safetensors").write_bytes(relay_base())
    kept = copy_of(Path("mine.safetensors"))
    alter(kept)
    assert copy_of(Path("mine.safetensors")).read_bytes() == relay_base()
    assert f"{kept} was altered" in caplog.text
    assert [path.name for path in cache.iterdir()] == [kept.name]


def test_copy_made_on_request_is_kept_until_altered(cache: Path):
    calls = list[Path]()

    def make(part: Path) -> None:
        calls.append(part)
        part.write_bytes(b"numbers" * 200)

    first, again = cached_file("request", make), cached_file("request", make)
    assert first == again and first.stem == sha256_of(first) and len(calls) == 1
    alter(first)
    assert cached_file("request", make).read_bytes() == b"numbers" * 200 and len(calls) == 2


def test_failed_copy_leaves_nothing(cache: Path):
    def fail(part: Path) -> None:
        part.write_bytes(b"half")
        raise UserError("no")

    with pytest.raises(UserError):
        cached_file("request", fail)
    assert not [*cache.iterdir()]


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_run_has_own_copy_with_read_only_cache(tmp_path: Path):
    Path("mine.safetensors").write_bytes(relay_base())
    (tmp_path / "cache").mkdir(mode=0o500)
    assert stored("run", "base.model=mine.safetensors").read_bytes() == relay_base()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "is no base of this program"),
        (b"x" * 1000, "is no base of this program"),
        (None, "is cut short or damaged"),
    ],
)
def test_files_that_are_no_models_are_one_line(body: bytes | None, words: str):
    Path("mine").write_bytes(relay_base()[:-1000] if body is None else body)
    with pytest.raises(UserError, match=words) as refusal:
        model_file(load(None, [*SETTINGS, "base.model=mine"]))
    assert "base.model: mine " in str(refusal.value) and "\n" not in str(refusal.value)
