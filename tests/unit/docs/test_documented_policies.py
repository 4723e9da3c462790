"""The documented identity policies are the shipped ones, and fill in for every tenant."""

import json
import re
from pathlib import Path

import pytest

from marless.infra.deployment import WHO, identity_policy

ROOT = Path(__file__).parents[3]
ACCOUNT, REGION = "123456789012", "eu-central-1"
LONGEST = "abcdefghijklmnopqrstuvwxyz-1234"


def test_the_page_shows_the_shipped_documents():
    page = (ROOT / "docs/reference/permissions.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    policies = ROOT / "infra/deployment/policies"
    assert shown == [(policies / f"{who}.json").read_text(encoding="utf-8") for who in WHO]


@pytest.mark.parametrize("tenant", ["a", "default", "team-b", "ends-", LONGEST])
@pytest.mark.parametrize("who", WHO)
def test_document_is_filled_in_with_named_statements(who, tenant):
    text = identity_policy(who, ACCOUNT, REGION, tenant)
    assert not re.search("ACCOUNT|REGION|TENANT", text)
    statements = json.loads(text)["Statement"]
    assert len({statement["Sid"] for statement in statements}) == len(statements)


def test_the_documents_fit_where_the_page_says():
    """IAM user guide, "IAM and STS quotas". White space does not count."""
    sizes = {
        tenant: len(re.sub(r"\s", "", identity_policy("deployer", ACCOUNT, REGION, tenant)))
        for tenant in (11 * "t", LONGEST)
    }
    assert sizes[11 * "t"] <= 6144 < sizes[LONGEST] <= 10_240


def test_document_names_bucket_and_repository_of_deployment():
    text = identity_policy("deployer", ACCOUNT, REGION, LONGEST)
    # S3 refuses names of over 63 characters, so a digest replaces this tenant.
    bucket = re.search(r"arn:aws:s3:::(marless-artifacts-[^/\"]+)", text)[1]
    assert re.fullmatch(rf"marless-artifacts-{ACCOUNT}-{REGION}-[0-9a-f]{{12}}", bucket)
    assert ':repository/marless/ends"' in identity_policy("deployer", ACCOUNT, REGION, "ends-")
