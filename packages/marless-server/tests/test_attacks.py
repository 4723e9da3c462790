"""Attacks on a server. The table attacks.toml has most of them."""

import json
import re

import pytest
from requests_to_labs import ATTACKS, SMALL, logins, stamped
from starlette.routing import Route

from marless.coordinator.config.nested_tables import flatten, nest
from marless_server.store.owners import Owner
from marless_server.web.api import PREFIX
from marless_server.web.app import SCREENS
from marless_server.web.bodies import MOST_BODY_BYTES

CASES = [(name, value) for name, tables in ATTACKS.items() if isinstance(tables, list) for value in tables[0]["values"]]


@pytest.mark.parametrize(("name", "value"), CASES, ids=[f"{name} {str(value)[:40]}" for name, value in CASES])
def test_an_attack_gets_one_line_about_its_part(lab, name, value):
    attack = {"login": "program", "method": "GET", "path": PREFIX, "kind": "application/json", **ATTACKS[name][0]}
    run, place, token = lab.submit("ana"), attack["vary"], lab.tokens["ana"]
    attack[place] = value
    body = json.dumps(nest({**flatten(SMALL), value[0]: value[1]})) if place == "setting" else attack.get("body", "")
    headers = [(key, text.replace("TOKEN", token)) for key, text in attack.get("headers", ())]
    pairs = [*logins(lab)[attack["login"]], ("content-type", attack["kind"]), *headers]
    more = {part: attack[part].replace("TOKEN", token) for part in ("host", "query") if part in attack}
    answer = lab.send(attack["method"], attack["path"].replace("RUN", run), stamped(lab, body).encode(), pairs, **more)
    expected_key = attack.get("key", value[0] if place == "setting" else answer.json.get("key"))
    assert (answer.status, answer.json.get("key")) == (attack["status"], expected_key)
    assert "\n" not in answer.json["detail"]
    policy = (
        r"default-src 'none'; style-src 'sha256-[^; ]*'; script-src 'sha256-[^; ]*'; connect-src 'self';"
        r" frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    )
    assert re.fullmatch(policy, answer.headers["content-security-policy"])
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not {"location", "set-cookie", "access-control-allow-origin"} & answer.headers.keys()
    assert lab.runs.find("ana", run).status == "queued"


def test_every_route_is_attacked_and_a_later_one_is_behind_the_door(lab):
    routes = {re.sub("{.*?}", "RUN", route.path) for kind in SCREENS for route in kind(None).routes()}
    assert routes <= {value for name, value in CASES if name == "without a token, no route answers"}
    lab.app._app.router.routes.append(Route("/later", lambda request: 1 / 0))
    assert lab.send("GET", "/later").status == 401
    assert lab.send("GET", "/", headers=[("authorization", "x")], kind="websocket").status == 1008


def test_a_token_that_is_almost_right_is_refused(lab):
    prefix, token_id, secret = (token := lab.tokens["ana"]).split("-")
    ben_id, other = lab.tokens["ben"].split("-")[1], "0" * len(secret)
    mixed = (f"{prefix}-{ben_id}-{secret}", f"{prefix}-{token_id}-{other}", f"-{token_id}-{secret}")
    headers = [[("authorization", f"Bearer {text}")] for text in ("", token[:-1], token.upper(), *mixed, token)]
    lab.owners.revoke(token_id)
    assert {lab.send("GET", PREFIX, headers=each).status for each in headers} == {401}


@pytest.mark.parametrize("start", [b"[", b'{"a": ', b'{"task": "\xff', b" "])
def test_a_long_body_is_refused(lab, start):
    bodies = [start * 20_000, start * (MOST_BODY_BYTES // len(start) + 1)]
    assert [lab.call("ana", "POST", "/submissions", body).status for body in bodies] == [400, 413]


def test_lists_pages_and_the_pool_name_no_run_of_others(lab):
    lab.submit("ana")
    run = lab.submit("ben")
    study = lab.call("ben", "POST", "/studies", {"base": SMALL, "seeds": "1-2"}).json["id"]
    verbs = [("GET", ""), ("POST", "/stop"), ("POST", "/resume")]
    assert [lab.call("ana", method, f"/studies/{study}{verb}").status for method, verb in verbs] == [404] * 3
    # This name is the beginning of another (CVE-2026-45426).
    lab.owners.add(Owner(name="an"))
    lab.tokens["an"] = lab.owners.new_token("an")
    assert lab.call("an", "GET", "/runs").json["runs"] == []
    answers = [
        lab.send("GET", path, headers=logins(lab)["browser"], query=query)
        for path, query in (("/", ""), ("/runs", ""), ("/me", ""), ("/compare", f"run={run}"), (f"{PREFIX}/runs", ""))
    ]
    answers.append(lab.call("ana", "GET", "/pool"))
    assert not any(run.encode() in answer.body for answer in answers)
    assert [turn["owner"] for turn in answers[-1].json["queue"]] == ["ana", "ben", "ben", "ben"]


def test_a_folder_is_a_download_and_never_a_page(lab):
    folder = lab.lab.folder(lab.runs.find("ana", run := lab.submit("ana"))).path
    folder.mkdir(parents=True)
    for name in ("plan.json", "report.html"):
        (folder / name).write_text("<script>alert(1)</script>")
    (folder / "link").symlink_to("/etc/passwd")
    assert lab.call("ana", "GET", f"/runs/{run}/archive").status in (422, 503)
    (folder / "link").unlink()
    # A range of many pieces (CVE-2025-62727).
    ranges = [("range", "bytes=" + ",".join(f"{start}-" for start in range(5_000)))]
    answers = [lab.call("ana", "GET", f"/runs/{run}/archive", headers=headers) for headers in ([], ranges)]
    assert (answers[0].status, answers[0].headers["content-type"]) == (200, "application/gzip")
    assert answers[0].headers["content-disposition"] == f'attachment; filename="{run}.tar.gz"'
    assert (answers[1].status, len(answers[1].body) <= len(answers[0].body)) in ((200, True), (400, True), (416, True))
    lab.call("ana", "POST", f"/runs/{run}/stop")
    # The archive that could not be written gave up its claim.
    assert lab.call("ana", "DELETE", f"/runs/{run}").status == 200


def test_a_text_is_no_markup_and_no_file_holds_a_token(lab, tmp_path):
    run, secret = lab.submit("ana"), lab.tokens["ana"].rpartition("-")[2]
    lab.runs.remark(run, "<script>alert(1)</script>\n2026-01-01 forged\x1b[2J")
    assert b"<script>alert" not in lab.send("GET", f"/runs/{run}", headers=logins(lab)["browser"]).body
    page = lab.send("GET", "/submit", query="config=%3Cscript%3E", headers=logins(lab)["browser"])
    assert (page.status, b"<script" in page.body, b'class="refused"' in page.body) == (200, False, True)
    log = lab.call("ana", "GET", f"/runs/{run}/log").body
    assert (len(log.splitlines()), b"\x1b" in log) == (2, False)
    bodies = [path.read_bytes() for path in (tmp_path / "server").rglob("*") if path.is_file()]
    assert not any(secret.encode() in body or bytes.fromhex(secret) in body for body in bodies)
