"""The file of a server: versions of its tables, and copies while it is written."""

import sqlite3

import pytest

from marless.coordinator.errors import UserError
from marless.functions.errors import StorageFault
from marless_server.serving import stored
from marless_server.store.database import MIGRATIONS, Database
from marless_server.store.owners import Owner
from marless_server.store.runs import NewRun, Runs

RUN = {"owner": "ana", "task": "t", "algorithm": "a", "seed": 1, "config": "", "settings": "", "key": None, "body": ""}


def test_a_file_of_each_version_opens_and_one_of_a_newer_version_is_refused(tmp_path):
    for version in range(1, len(MIGRATIONS) + 2):
        with sqlite3.connect(path := tmp_path / f"{version}.sqlite") as file:
            file.executescript(";".join(MIGRATIONS[:version]))
            file.execute("INSERT INTO owners (name, weight, code, created_at) VALUES ('ana', 1, 0, '')")
            # The first version has no number.
            file.execute(f"PRAGMA user_version = {version if version > 1 else 0}")
        if version > len(MIGRATIONS):
            with pytest.raises(StorageFault, match=f"version {version} of the tables.*Update marless-server"):
                Database(path)
        else:
            [run], _ = Runs(Database(path)).submit([NewRun(**RUN)])
            assert (run.owner, run.study, run.rounds, run.keep) == ("ana", "", None, False)


def test_a_copy_of_a_file_in_use_has_its_owners_tokens_and_queue(tmp_path):
    with stored(tmp_path / "lab") as (database, owners):
        owners.add(Owner(name="ana"))
        token, [run] = owners.new_token("ana"), Runs(database).submit([NewRun(**RUN)])[0]
        (tmp_path / "copy").mkdir()
        database.backup(tmp_path / "copy/server.sqlite")
        with pytest.raises(UserError, match="File exists"):
            database.backup(tmp_path / "copy/server.sqlite")
        (tmp_path / "copy/key").write_bytes((tmp_path / "lab/key").read_bytes())
    with stored(tmp_path / "copy") as (database, owners):
        assert (owners.holder(token)[0].name, Runs(database).open()) == ("ana", [run])
