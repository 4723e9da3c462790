"""Runs are listed with their size, removed, and kept as one file."""

import gzip
import io
import json
import os
import random
import shutil
import tarfile
from pathlib import Path

import pytest
from commands import train_in

from marless.coordinator.errors import UserError
from marless.reports.text import size
from marless.runs.folder import RunFolder
from marless.runs.upkeep import removal
from marless.runs.upkeep.archives import unpack

pytestmark = pytest.mark.usefixtures("copies")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    train_in(folder, "first", "stop.rounds=1")
    return train_in(folder, "second", "stop.rounds=1", "task.name=mpe/simple")


@pytest.fixture
def study(marless):
    shutil.copytree("runs/first", "studies/lr/runs/base-s1")
    Path("studies/lr/study.json").write_text("{}")
    return Path("studies/lr")


@pytest.mark.parametrize(("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1700, "1.7 kB"), (999_600, "1.0 MB")])
def test_sizes_have_decimal_prefixes(count, text):
    assert size(count) == text


def names(said):
    return [line.split()[0] for line in said.out[1:]]


def test_list_is_filtered_sorted_and_names_studies(marless, study):
    (Path("runs/first") / "large").write_bytes(b"x" * 5_000_000)
    said = marless("runs")
    assert said.out[0].split() == ["run", "status", "final", "return", "size"]
    assert max(map(len, said.out)) <= 80
    assert said.err == ["and in studies/lr; list those with: marless runs studies/lr"]
    assert names(marless("runs", "--sort", "size")) == ["second", "first"]
    assert names(marless("runs", "--sort", "name")) == ["first", "second"]
    assert names(marless("runs", "--task", "simple")) == ["second"]
    assert marless("runs", "--status", "failed").out == ["no such runs"]
    assert len(marless("runs", "--long").out[0].split()) == 11
    rows = {row["run"]: row for row in map(json.loads, marless("runs", "--json").out)}
    assert any(line.endswith(f"{rows['first']['bytes'] / 1e6:.1f} MB") for line in said.out)
    assert rows["first"]["bytes"] > 5_000_000 and rows["second"]["task"] == "mpe/simple"


def test_run_is_removed_after_question_and_latest_updated(marless):
    assert Path("runs/latest").resolve().name == "second"
    refused = marless("runs", "remove", "second")
    assert (refused.code, refused.err) == (2, ["marless: no terminal to confirm on; pass --yes"])
    said = marless("runs", "remove", "latest", "--yes")
    assert said.code == 0 and said.out[0].startswith("removed second, ")
    assert sorted(path.name for path in Path("runs").iterdir()) == ["first", "latest"]
    assert Path("runs/latest").resolve().name == "first"
    assert marless("runs", "remove", "first", "--yes").code == 0
    assert list(Path("runs").iterdir()) == []


def test_driven_or_unknown_run_is_not_removed(marless, study):
    with RunFolder(Path("runs/second")).driving():
        said = marless("runs", "remove", "first", "second", "--yes")
        assert said.code == 2 and "second is in use by another process" in said.err[0]
    with RunFolder(Path("studies/lr/runs/base-s1")).driving():
        assert "base-s1 of studies/lr is being trained" in marless("runs", "remove", "lr", "--yes").err[0]
    assert marless("runs", "remove", "first", "third", "--yes").code == 2
    assert marless("runs", "remove", "studies", "--yes").code == marless("runs", "remove", ".", "--yes").code == 2
    assert RunFolder(Path("runs/first")).begun and study.is_dir()


def test_study_is_removed_with_runs_without_following_links(marless, study, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (study / "runs" / "link").symlink_to(outside)
    assert marless("runs", "remove", "lr", "--yes").code == 0
    assert not study.exists() and (outside / "kept").exists()
    shutil.move("runs/first", outside / "first")
    Path("runs/first").symlink_to(outside / "first")
    assert "is a link to" in marless("runs", "remove", "first", "--yes").err[0]
    assert (outside / "first" / "plan.json").exists()


def test_interrupted_removal_is_finished_by_next_removal(marless):
    removal.remove(Path("runs/second"), delete=lambda path: (path / "summary.json").unlink())
    said = marless("runs")
    advice = "1 command cut short left files; delete them with: marless runs remove"
    assert names(said) == ["first"] and said.err == [advice]
    assert "left by a command that was cut short" in marless("runs", "remove").out[0]
    assert sorted(path.name for path in Path("runs").iterdir()) == ["first", "latest"]


def test_simultaneous_removals_happen_once_and_report_twice(marless):
    said = []

    def meanwhile(path):
        """Run a second removal before the first one has deleted the files, and a third one that deletes them."""
        said.append(marless("runs", "remove", "second", "--yes"))
        assert marless("runs", "remove", "--yes").code == 2 and path.is_dir()  # another command still works on it
        removal.discard(path)
        removal.discard(path)

    removal.remove(Path("runs/second"), meanwhile)
    assert said[0].code == 2 and "there is no run" in said[0].err[0]
    first = RunFolder(Path("runs/first"))
    removal.remove(first.path)
    with pytest.raises(UserError, match="runs/first was removed by another process"), first.driving():
        pass


def test_leftovers_of_killed_archive_are_deleted_later(marless):
    part, arriving = Path(".archiving-first.tar.gz-0123abcd"), Path("runs/.arriving-first-0123abcd")
    part.write_bytes(b"a part")
    arriving.mkdir()
    assert marless("runs").err == ["2 commands cut short left files; delete them with: marless runs remove"]
    assert marless("runs", "archive", "first").code == 0 and not part.exists()
    shutil.rmtree("runs/first")
    assert marless("runs", "restore", "first.tar.gz").code == 0 and not arriving.exists()
    Path("elsewhere").mkdir()
    shutil.move("runs/first", "elsewhere/first")
    removal.remove(Path("elsewhere/first"), delete=lambda path: (path / "summary.json").unlink())
    assert "left by a command that was cut short" in marless("runs", "remove", "elsewhere/first").out[0]
    assert list(Path("elsewhere").iterdir()) == []


def test_archive_restores_run_and_equal_runs_are_equal(marless):
    before = {path.name: path.read_bytes() for path in Path("runs/first").iterdir() if path.is_file()}
    assert marless("runs", "archive", "first").out == ["first.tar.gz"]
    os.utime("runs/first/summary.json", (1, 1))
    assert marless("runs", "archive", "first", "--out", "again.tar.gz").code == 0
    assert Path("first.tar.gz").read_bytes() == Path("again.tar.gz").read_bytes()
    assert "exists; give another file" in marless("runs", "archive", "first").err[0]
    assert marless("runs", "archive", "first", "--out", "no/first.tar.gz").err == [
        "marless: --out no/first.tar.gz: there is no folder no"
    ]
    assert "already" in marless("runs", "restore", "first.tar.gz").err[0]
    shutil.rmtree("runs/first")
    assert marless("runs", "restore", "first.tar.gz").out == ["runs/first"]
    after = {path.name: path.read_bytes() for path in Path("runs/first").iterdir() if path.is_file()}
    assert {name: body for name, body in before.items() if name != ".lock"} == after
    assert marless("runs", "verify", "first").code == 0
    assert marless("resume", "first", "stop.rounds=2", "--workers", "1").code == 0


def test_file_that_is_no_archive_is_refused(marless):
    body = bytearray()
    assert marless("runs", "archive", "first").code == 0
    body += Path("first.tar.gz").read_bytes()
    Path("cut.tar.gz").write_bytes(body[: len(body) // 2])
    Path("text.tar.gz").write_bytes(b"text")
    with tarfile.open("above.tar.gz", "w:gz") as archive:
        archive.add("first.tar.gz", "../third/plan.json")
    with tarfile.open("through.tar.gz", "w:gz") as archive:
        archive.add("first.tar.gz", "first/../../third/plan.json")
    with tarfile.open("zero.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("first/plan.json")
        member.pax_headers = {"path": "first/plan\0.json"}
        archive.addfile(member)
    with tarfile.open("both.tar.gz", "w:gz") as archive:
        for name in ("first/plan.json", "first/plan.json/part"):
            archive.add("first.tar.gz", name)
    with tarfile.open("bare.tar.gz", "w:gz") as archive:
        archive.add("runs/first", ".")
    shutil.rmtree("runs/first")
    for name in ("cut", "text", "above", "through", "zero", "both", "bare", "absent"):
        said = marless("runs", "restore", f"{name}.tar.gz")
        assert said.code == 2 and len(said.err) == 1
    assert sorted(path.name for path in Path("runs").iterdir()) == ["latest", "second"] and not Path("third").exists()


def packed(*members):
    with tarfile.open("odd.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for member, body in members:
            archive.addfile(member, io.BytesIO(body))


def member(name="first/plan.json", size=0, **fields):
    info = tarfile.TarInfo(name)
    info.size = size
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def old_gnu_sparse(size):
    """A member that announces more bytes than the archive holds, in the format of GNU tar."""
    header = bytearray(tarfile.TarInfo("first/plan.json").tobuf(tarfile.GNU_FORMAT))
    header[156:157] = tarfile.GNUTYPE_SPARSE
    header[483:495] = b"\x80" + size.to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    Path("odd.tar.gz").write_bytes(gzip.compress(bytes(header) + bytes(1024)))


ODD = {
    "a sparse map that is none": lambda: packed((member(pax_headers={"GNU.sparse.map": "a,b"}), b"")),
    "a sparse size that is none": lambda: packed((member(pax_headers={"GNU.sparse.size": "x"}), b"")),
    "a sparse map of version 1": lambda: packed(
        (member(size=512, pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}), b"x" * 512)
    ),
    "a size that is no number": lambda: packed((member(pax_headers={"size": "many"}), b"")),
    "a size below zero": lambda: packed((member(pax_headers={"size": "-5"}), b"")),
    "a file with a gap of 2 GB": lambda: old_gnu_sparse(2 << 30),
    "a file with a gap of 4 EB": lambda: old_gnu_sparse(1 << 62),
    "more bytes than the disk has": lambda: packed((member(pax_headers={"size": str(1 << 60)}), b"")),
    "a header of 4 MB": lambda: packed((member(pax_headers={"comment": "c" * (4 << 20)}), b"")),
    "a name of 2 MB": lambda: packed((member("first/" + "n" * (2 << 20)), b"")),
    "a name of 300 letters": lambda: packed((member("first/" + "n" * 300), b"")),
    "no plan": lambda: packed((member("first/summary.json"), b"")),
    "a path of 2,000 folders": lambda: packed((member("first" + "/d" * 2000), b"")),
}


@pytest.mark.parametrize("oddity", ODD)
def test_odd_archive_is_refused_in_one_short_line(oddity, marless):
    ODD[oddity]()
    shutil.rmtree("runs/first")
    said = marless("runs", "restore", "odd.tar.gz")
    assert (said.code, len(said.err)) == (2, 1)
    assert len(said.err[0]) < 400
    assert sorted(path.name for path in Path("runs").iterdir()) == ["latest", "second"]


@pytest.mark.parametrize(
    ("seed", "count"), [(1, 20), *(pytest.param(seed, 150, marks=pytest.mark.slow) for seed in (2, 3))]
)
def test_archive_with_changed_header_stays_below_runs(seed, count, marless):
    draw = random.Random(seed)
    assert marless("runs", "archive", "first").code == 0
    shutil.rmtree("runs/first")
    whole = gzip.decompress(Path("first.tar.gz").read_bytes())
    with tarfile.open("first.tar.gz") as archive:
        headers = [info.offset for info in archive]
    outside = {path.name for path in Path.cwd().iterdir()} | {"odd.tar.gz"}
    for _ in range(count):
        body, at = bytearray(whole), draw.choice(headers)
        for _ in range(draw.randrange(1, 4)):
            body[at + draw.choice([draw.randrange(100), draw.randrange(124, 136), 156, draw.randrange(512)])] = (
                draw.randrange(256)
            )
        if draw.random() < 0.8:
            body[at + 148 : at + 156] = b" " * 8
            body[at + 148 : at + 156] = b"%06o\0 " % sum(body[at : at + 512])
        Path("odd.tar.gz").write_bytes(gzip.compress(bytes(body), 1))
        try:
            shutil.rmtree(unpack(Path("odd.tar.gz")).path)
        except UserError as error:
            assert len(str(error)) < 400 and "\n" not in str(error)
        assert sorted(path.name for path in Path("runs").iterdir()) == ["latest", "second"]
        assert {path.name for path in Path.cwd().iterdir()} == outside


def test_file_in_place_of_runs_folder_is_named(marless):
    assert marless("runs", "archive", "first").code == 0
    shutil.rmtree("runs")
    Path("runs").write_text("notes")
    said = marless("runs", "restore", "first.tar.gz")
    assert said.code == 2
    assert said.err == ["marless: runs is no folder, and runs are kept in one of that name; move it, or rename it"]
    assert Path("runs").read_text() == "notes"
