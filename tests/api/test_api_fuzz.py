"""Whatever is sent, the answer is what ``/openapi.json`` says, and never a fault of the server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from api_kit import Api, serving
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tenure.api import context
from tenure.store import UserRow

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with serving(tmp_path_factory.mktemp("fuzz")) as running:
        for number in range(3):
            running.submit(name=f"job {number}", gpus=8)
        # Nothing that is sent may lock the sender out, and nobody waits.
        running.app.dependency_overrides[context.caller] = lambda: UserRow("root", "admin", 1, False)
        running.app.state.changes.close()
        yield running


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_no_input_breaks_the_server_or_its_description(fuzzed: Api, mode: schemathesis.GenerationMode) -> None:
    url = str(fuzzed.http.base_url)
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if mode is schemathesis.GenerationMode.NEGATIVE and operation.path in ("/healthz", "/metrics", "/v1/me"):
            continue  # there is nothing in them that could be wrong

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        def attempt(case: schemathesis.Case) -> None:
            case.call_and_validate(base_url=url, checks=CHECKS)

        attempt()
        tried += 1
    assert tried > 30
