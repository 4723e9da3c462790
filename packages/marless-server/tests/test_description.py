"""Requests that schemathesis makes from the description of the API get documented answers only."""

import pytest
from requests_to_labs import HOST

schemathesis = pytest.importorskip("schemathesis")
hypothesis = pytest.importorskip("hypothesis")
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
SETTINGS = hypothesis.settings(max_examples=3, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))


@pytest.mark.parametrize("mode", schemathesis.GenerationMode)
def test_no_answer_is_undocumented(lab, mode):
    login = {"Authorization": f"Bearer {lab.tokens['ana']}", "Host": HOST}
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", lab.app, headers=login)
    checks = [schemathesis.checks.CHECKS.get_one(name) for name in CHECKS]

    def send(case):
        case.call_and_validate(headers=login, checks=checks)

    for operation in schema.get_all_operations():
        SETTINGS(hypothesis.given(operation.ok().as_strategy(generation_mode=mode))(send))()
