"""Pages and their forms, as a browser sends them."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace
from requests_to_labs import ATTACKS, SMALL, logins

from marless.coordinator.config import toml_dump
from marless.coordinator.config.loading import convert
from marless_server.pool.deletion import delete_all, delete_expired
from marless_server.store.owners import Owner
from marless_server.store.runs import Conflict
from marless_server.web.layout import SCRIPT

FORM = [("content-type", "application/x-www-form-urlencoded"), ("origin", "http://127.0.0.1:8765")]


class Browser:
    """A browser of Ana. It fills in the forms that a page has."""

    def __init__(self, lab):
        self.lab, self.login = lab, logins(lab)["browser"]

    def get(self, path, query=""):
        answer = self.lab.send("GET", path, headers=self.login, query=query)
        assert answer.status == 200, answer.body
        return answer.body.decode()

    def send(self, page, button, **fields):
        """Send the form of a page with this button."""
        for action, inner in re.findall(r'<form action="([^"]*)" method="post">(.*?)</form>', page, re.S):
            if f"<button>{button}</button>" in inner:
                pairs = dict(re.findall(r'<input name="(\w+)" type="hidden" value="([^"]*)">', inner))
                values = {name: unescape(value) for name, value in pairs.items()} | fields
                return self.lab.send("POST", action, urlencode(values).encode(), [*self.login, *FORM])
        raise AssertionError(f"no button {button}")


def test_an_administrator_adds_changes_and_removes_an_owner(lab):
    browser = Browser(lab)
    assert "/admin" not in browser.get("/")
    lab.owners.change(Owner(name="ana", admin=True))
    assert browser.send(browser.get("/admin"), "Add", name="eve").headers["location"] == "/admin/owners/eve"
    path = "/admin/owners/eve"
    fields = {"weight": "2", "at_once": "3", "slot_seconds": "", "dollars": "0.5", "disk_gb": "1", "keep_days": "30"}
    assert browser.send(browser.get(path), "Save", **fields, code="yes").status == 303
    expected = Owner(name="eve", weight=2.0, at_once=3, dollars=0.5, disk_gb=1.0, keep_days=30.0, code=True)
    assert replace(lab.owners.all()["eve"], created_at="") == expected
    [token] = re.findall(r"marless-\w+-\w+", browser.send(browser.get(path), "Issue a token").body.decode())
    assert lab.owners.holder(token)[0].name == "eve"
    assert browser.send(browser.get(path), "Revoke").status == 303
    assert lab.owners.holder(token) is None
    assert browser.send(browser.get(path), "Remove eve").headers["location"] == "/admin"
    page = browser.get("/admin")
    assert ("eve" in lab.owners.all(), token in page) == (False, False)
    subjects = [(deed.owner, deed.action, deed.subject) for deed in lab.runs.deeds(None, 9)]
    changes = "eve weight=2.0 at_once=3 dollars=0.5 disk_gb=1.0 keep_days=30.0 code=True"
    token_id = token.split("-")[1]
    assert subjects == [
        ("ana", "owner remove", "eve"), ("ana", "revoke", f"eve {token_id}"), ("ana", "token", f"eve {token_id}"),
        ("ana", "owner change", changes), ("ana", "owner add", "eve"),
    ]  # fmt: skip


def test_an_impossible_change_of_an_owner_gets_one_line(lab):
    lab.owners.change(Owner(name="ana", admin=True))
    lab.submit("ben")
    browser, before = Browser(lab), lab.owners.all()
    page = browser.get("/admin/owners/ben")
    answers = {
        line: browser.send(page, "Save", **dict(pair.split("=") for pair in fields.split()))
        for fields, line in ATTACKS["impossible limits of an owner"].items()
    }
    answers["ben has runs"] = browser.send(page, "Remove ben")
    for line, answer in answers.items():
        assert (answer.status, f'role="alert">{line}' in answer.body.decode()) == (422, True)
    assert lab.owners.all() == before
    with pytest.raises(Conflict, match="Stop them first"):
        delete_all(lab.runs, lab.lab.root, "ben")


def test_a_browser_checks_submits_stops_keeps_and_deletes_a_run(lab):
    browser, text = Browser(lab), toml_dump.document(convert(SMALL, "")).replace("\n", "\r\n")
    checked = browser.get("/submit", urlencode({"config": text}))
    answers = [browser.send(checked, "Put it into the queue") for _ in range(2)]
    # The configuration is checked again when it is submitted.
    other = browser.send(checked, "Put it into the queue", config='task = "a.b:make"', key="")
    assert (other.status, b"no name of an installed task" in other.body) == (422, True)
    [row] = lab.runs.open()
    path = f"/runs/{row.id}"
    assert [answer.headers["location"] for answer in answers] == [path] * 2
    states = []
    for button in ("Stop", "Keep it", "Do not keep it", "Resume", "Stop"):
        assert browser.send(browser.get(path), button).headers["location"] == path
        row = lab.runs.find("ana", row.id)
        states.append((row.status, row.keep, f"<script>{SCRIPT}</script>" in browser.get(path)))
    stopped, kept = ("stopped", False, False), ("stopped", True, False)
    assert states == [stopped, kept, stopped, ("queued", False, True), stopped]
    (folder := lab.lab.root / row.id).mkdir()
    lab.lab.claims.take(row.id)
    assert b"an archive of it is being written" in browser.send(browser.get(path), "Delete").body
    lab.lab.claims.give(row.id)
    assert browser.send(browser.get(path), "Delete").headers["location"] == "/runs"
    assert (lab.runs.find("ana", row.id), lab.runs.remarks(row.id), folder.exists()) == (None, [], False)
    assert lab.runs.deeds("ana", 1)[0].action == "delete"


def test_old_runs_are_deleted_after_their_owners_days_unless_they_are_kept(lab):
    lab.owners.change(Owner(name="ana", keep_days=2.0))
    runs = {name: lab.submit("ben" if name == "ben's" else "ana") for name in ("old", "kept", "waits", "used", "ben's")}
    for name in ("old", "kept", "used", "ben's"):
        lab.runs.stop(runs[name])
    assert lab.call("ana", "PATCH", f"/runs/{runs['kept']}", {"keep": True}).json["keep"]
    lab.lab.claims.take(runs["used"])
    moments = [datetime.now(UTC) + timedelta(days=days) for days in (1.9, 2.1)]
    deleted = [delete_expired(lab.runs, lab.lab.claims, lab.lab.root, lab.owners.all(), moment) for moment in moments]
    assert deleted == [[], [runs["old"]]]
