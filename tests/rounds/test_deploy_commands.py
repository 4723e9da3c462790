"""The commands that deploy, train, print logs and tear down, in emulated accounts."""

import json
import re
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError
from commands import SMALL, Commands

from aws_emulator import account
from marless.cli.app import main
from marless.cloud.emulated_account import CONCURRENCY, account_folder, cloud_at, cloud_of
from marless.infra.deployment import describe

ON = ("--backend", "emulated")


@pytest.fixture
def marless(tmp_path, shell, capfd):
    """Commands in a fresh folder. Ends the account that they leave."""
    shell.cd(tmp_path)
    yield Commands(capfd)
    if (running := account.find(account_folder())) is not None:
        running.stop()


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A folder with the default deployment in its account. The account ends with the tests."""
    folder = tmp_path_factory.mktemp("deployed")
    with chdir(folder):
        assert main(["cloud", "deploy", *ON]) == 0
        yield folder
        account.find(account_folder()).stop()


@pytest.fixture
def there(deployed, shell, capfd):
    shell.cd(deployed)
    return Commands(capfd)


def deployment(tenant="default"):
    return describe(cloud_of(account_folder()), f"marless-{tenant}")


def small(marless, name, *settings):
    return marless("train", *SMALL, *ON, *settings, "--run", name)


def test_deployment_is_made_kept_renewed_and_removed(marless):
    made = marless("cloud", "deploy", *ON, "--actor-memory", "2048", "--budget", "7")
    assert (made.code, made.err) == (0, ["starting an emulated AWS account in runs/.emulated"])
    assert "actor        version 1, 2,048 MB, 300 s" in made.out
    assert made.out[-1] == "next: marless train --backend emulated"

    again = marless("cloud", "deploy", *ON)
    assert (again.code, again.err) == (0, [])
    assert "stack marless-default is up to date" in again.out
    assert "actor        version 1, 2,048 MB, 300 s" in again.out

    changed = marless("cloud", "deploy", *ON, "--learner-timeout", "60")
    # A published version is immutable, so a run that began earlier is not affected.
    assert "learner      version 2, 1,769 MB, 60 s" in changed.out

    there = cloud_of(account_folder())
    gone = marless("cloud", "teardown", *ON, "--yes")
    assert gone.code == 0
    assert gone.out[-1] == "nothing of tenant default is left in the emulated account in runs/.emulated"
    assert gone.err == ["the emulated account has ended"]
    assert account.find(account_folder()) is None
    with pytest.raises(EndpointConnectionError):
        there.client("sts", retries={"total_max_attempts": 1}).get_caller_identity()


@pytest.mark.slow
def test_run_deploys_automatically_and_removes_its_account(marless):
    said = small(marless, "first")
    assert said.code == 0, said.err
    assert said.err == [
        "starting an emulated AWS account in runs/.emulated",
        "deploying stack marless-default in the emulated account",
    ]
    assert account.find(account_folder()) is None
    figures = json.loads(Path("runs/first/summary.json").read_text())
    assert (figures["status"], figures["rounds"]) == ("finished", 4)
    assert Path("runs/first/policies.safetensors").stat().st_size > 0


@pytest.mark.slow
def test_account_of_unfinished_run_is_kept(marless):
    command = [sys.executable, "-m", "marless.cli.app", "train", *SMALL, *ON, "stop.rounds=100000", "--run", "long"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        journal = Path("runs/long/metrics.jsonl")
        until = time.monotonic() + 120
        while not (journal.is_file() and journal.stat().st_size) and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(2)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "keeps running; delete it and its data with: marless cloud teardown --backend emulated" in err
    rounds = json.loads(journal.read_text().splitlines()[-1])["round"]
    refused = marless("resume", "long", "functions.actor.timeout_s=600")
    said = "marless: functions.actor.timeout_s: the run's deployed actor has 300 s; ask for no more"
    assert (refused.code, refused.err) == (2, [said])
    resumed = marless("resume", "long", f"stop.rounds={rounds + 2}", "functions.actor.timeout_s=200")
    assert resumed.code == 0, resumed.err
    assert json.loads(Path("runs/long/summary.json").read_text())["rounds"] == rounds + 2
    # A run that ends in the same account does not end the account while another run needs it.
    assert account.find(account_folder()) is not None


def test_detached_run_is_not_torn_down_accidentally(marless):
    assert marless("train", *SMALL, *ON, "stop.rounds=100000", "--run", "far", "--detach").code == 0
    assert account.find(account_folder()) is not None
    until = time.monotonic() + 120
    while marless("status", "far", "--json").code and time.monotonic() < until:  # until it has started
        time.sleep(0.2)
    kept = marless("cloud", "teardown", *ON, "--yes")
    assert (kept.code, kept.err) == (
        2,
        ["marless: far is in progress; stop it first (marless stop far), or pass --force"],
    )
    assert marless("stop", "far").code == 0
    removed = marless("cloud", "teardown", *ON, "--yes")
    assert removed.code == 0, removed.err
    assert "and 1 run with all data: far" in removed.out


@pytest.mark.slow
def test_account_of_ten_executions_reserves_none(marless, shell):
    shell.export(**{CONCURRENCY: "10"})
    assert marless("cloud", "deploy", *ON).code == 0
    running = account.find(account_folder())
    quotas = cloud_at(running.whereabouts).client("lambda").get_account_settings()["AccountLimit"]
    assert quotas["ConcurrentExecutions"] == quotas["UnreservedConcurrentExecutions"] == 10
    refused = marless("cloud", "deploy", *ON, "--concurrency", "1")
    assert refused.code == 2
    assert "below its minimum value of [10]" in refused.err[-1]
    shell.export(**{CONCURRENCY: "20"})
    other = marless("cloud", "deploy", *ON)
    assert (other.code, other.err) == (
        2,
        [
            f"marless: {CONCURRENCY}: the emulated account in runs/.emulated was started with 10 concurrent executions,"
            " not 20; unset the variable, or end the account first"
        ],
    )


def test_previewed_deployment_stays_unchanged(there):
    before = deployment()
    dry = there("cloud", "deploy", *ON, "--dry-run", "--actor-memory", "3008")
    assert (dry.code, dry.err, dry.out[0].split()) == (0, [], ["change", "resource", "type"])
    assert ["modify", "Actor", "AWS::Lambda::Function"] in [line.split() for line in dry.out]
    printed = there("cloud", "deploy", *ON, "--print-template", "--actor-memory", "3008")
    assert (printed.code, printed.err) == (0, [])
    assert printed.out[:2] == ['AWSTemplateFormatVersion: "2010-09-09"', "Transform: AWS::Serverless-2016-10-31"]
    assert printed.out.count('    Default: "3008"') == 1
    assert deployment() == before
    refused = there("cloud", "deploy", *ON, "--print-template", "--plugin", "./mine")
    assert (refused.code, refused.out) == (2, [])


@pytest.mark.parametrize("quota", ["0", "ten", "-1", "1.5"])
def test_quota_that_is_no_number_starts_no_account(marless, shell, quota):
    shell.export(**{CONCURRENCY: quota})
    said = marless("cloud", "deploy", *ON)
    assert (said.code, said.err) == (2, [f"marless: {CONCURRENCY}: {quota!r} is not a whole number above 0"])
    assert account.find(account_folder()) is None


@pytest.mark.conformance
def test_each_tenant_has_a_deployment_of_its_own(marless):
    for tenant in ("one", "two"):
        assert marless("cloud", "deploy", *ON, "--tenant", tenant).code == 0
    assert deployment("one").bucket != deployment("two").bucket
    assert marless("cloud", "teardown", *ON, "--tenant", "one", "--yes").code == 0
    assert deployment("one") is None and deployment("two") is not None
    again = marless("cloud", "teardown", *ON, "--tenant", "one", "--yes")
    assert (again.code, again.err) == (
        2,
        ["marless: tenant one has no deployment in the emulated account in runs/.emulated"],
    )


def test_run_is_billed_and_capped_at_regional_prices(marless):
    def dollars(name):
        lines = json.loads(Path(f"runs/{name}/bill.json").read_text())["lines"]
        return {line["name"]: (line["quantity"], line["dollars"]) for line in lines}

    assert marless("cloud", "deploy", *ON, "--region", "eu-central-1").code == 0
    assert small(marless, "there", "stop.rounds=1").code == 0
    assert json.loads(Path("runs/there/bill.json").read_text())["region"] == "eu-central-1"
    # Frankfurt: $5.40 per million PUT requests, $0.7625 per million write units.
    (puts, paid), (units, spent) = dollars("there")["s3 puts"], dollars("there")["ledger writes"]
    assert paid == pytest.approx(puts * 5.4e-6) and spent == pytest.approx(units * 0.7625e-6)
    chosen = small(marless, "chosen", "stop.rounds=1", "pricing.region=eu-west-1")
    assert "at prices of eu-west-1, not of eu-central-1" in "\n".join(chosen.err)
    assert json.loads(Path("runs/chosen/bill.json").read_text())["region"] == "eu-west-1"


def test_removal_needs_confirmation_of_user(there):
    said = there("cloud", "teardown", *ON)
    assert (said.code, said.err) == (2, ["marless: no terminal to confirm on; pass --yes"])
    assert deployment() is not None


@pytest.mark.slow
def test_logs_show_function_output_with_its_run(there):
    assert small(there, "well", "stop.rounds=1").code == 0
    broken = small(there, "ill", "task.name=pettingzoo:bad_environments:Raises", "attempts=1")
    assert broken.code != 0
    calls = there("cloud", "logs", "--function", "actor")
    pattern = r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}  actor\s+[0-9a-f]{8}\s+ran [\d.]+ ms, billed \d+ ms, \d+ of 1769 MB.*"
    assert any(re.fullmatch(pattern, line) for line in calls.out)
    assert not any("START RequestId" in line for line in calls.out)


def test_run_of_other_size_gets_command_that_deploys(there):
    said = small(there, "big", "functions.actor.memory_mb=4096")
    assert said.code == 2
    assert said.err[-1].endswith("deploy again with --actor-memory 4096")
    assert not Path("runs/big").exists()
