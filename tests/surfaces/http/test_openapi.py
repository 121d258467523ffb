"""The OpenAPI document says what there is, and the server keeps to it, whatever is sent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from tests.surfaces.http.conftest import Client, ServedNotes

from lorelog.operations.catalogue import all_operations, operation_schemas
from lorelog.surfaces.http.openapi import describe_api

EXAMPLES = 12
"""Of each operation and each kind: enough to find what one forgot, few enough for every run of the tests."""
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
]
"""What must hold for every answer. Not that every valid request is accepted: a day or a directory may not exist."""
Likely = dict[str, list[str]]
"""Values by the names of the fields that they mean something for."""
OWN = {"/", "/health", "/metrics", "/openapi.json", "/api/ops"}
LOOP = {f"/api/memory/{name}" for name in ("search", "index", "files", "files/search", "file")}


def test_every_offered_operation_has_a_path(client: Client) -> None:
    """The document has the operations that are offered, no other, and Loop's endpoints and our own."""
    document = client.get("/openapi.json").json
    offered = {f"/api/call/{name}" for name, operation in all_operations().items() if "http" not in operation.absent}

    assert document["openapi"] == "3.1.0"
    assert set(document["paths"]) == offered | OWN | LOOP


def test_every_reference_leads_somewhere() -> None:
    """Each `$ref` names a schema of the document."""
    document = describe_api(secured=True)
    text = json.dumps(document)
    named = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}

    assert named <= set(document["components"]["schemas"])


def test_a_component_name_has_one_definition() -> None:
    """Two operations that refer to a schema of the same name mean the same one."""
    definitions: dict[str, Any] = {}
    for operation in all_operations().values():
        for name, definition in operation_schemas(operation)[2].items():
            assert definitions.setdefault(name, definition) == definition, (operation.name, name)


@pytest.mark.slow
def test_a_token_stands_in_the_document(world: ServedNotes) -> None:
    """Where a token is asked for, the document says so, and that /health goes without."""
    client = world.serve(token="t" * 20)
    document = json.loads(client.send("GET", "/openapi.json", headers={"Authorization": f"Bearer {'t' * 20}"}).body)

    assert document["security"] == [{"token": []}]
    assert document["paths"]["/health"]["get"]["security"] == []


def confined(world: ServedNotes) -> Any:
    """Who answers, with every directory that a request hits upon taken for the project: adding writes into it."""

    def answer(op: str, arguments: Any, *rest: Any) -> dict[str, Any]:
        named = arguments.get("project")
        if isinstance(named, str) and os.path.isdir(os.path.join(world.here, named)):  # noqa: PTH112, PTH118
            arguments = {**arguments, "project": world.here}
        return world.dispatcher.call(op, arguments, *rest)

    return answer


def try_all(document: dict[str, Any], port: int, paths: Callable[[str], bool], likely: Likely) -> list[str]:
    """Send generated requests to the operations of some paths; return what went wrong."""
    found: list[str] = []
    schema = schemathesis.openapi.from_dict(document)
    for result in schema.get_all_operations():
        operation: Any = result.ok()  # type: ignore[union-attr]
        if not paths(operation.path):
            continue
        for mode in schemathesis.GenerationMode:
            try:
                send_examples(operation, mode, f"http://127.0.0.1:{port}", likely)
            except Unsatisfiable:
                assert mode is schemathesis.GenerationMode.NEGATIVE  # nothing could be wrong about it
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  (all of them are shown)
                found.append(f"{operation.label} {mode.value}: {error}")
    return found


def send_examples(operation: Any, mode: Any, url: str, likely: Likely) -> None:
    """Send requests to one operation, the same ones each time; some of the valid ones bear values that mean something here."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(mode), meant=st.booleans(), data=st.data())
    def send(case: Any, meant: bool, data: st.DataObject) -> None:  # noqa: FBT001
        if meant and mode is schemathesis.GenerationMode.POSITIVE:
            parameters = {parameter.name for parameter in operation.query}
            for name, values in likely.items():
                if name in parameters:
                    case.query[name] = data.draw(st.sampled_from(values))
                elif name == "dir_path" and isinstance(case.body, dict):
                    case.body[name] = data.draw(st.sampled_from(values))
        case.call_and_validate(base_url=url, checks=CHECKS, timeout=60)

    send()


@pytest.mark.slow
def test_no_call_breaks_the_server(world: ServedNotes) -> None:
    """Valid and invalid arguments to every operation: no fault of ours, and every answer as documented."""
    client = world.serve(confined(world), max_body_bytes=1_000_000_000)
    document = client.get("/openapi.json").json

    assert try_all(document, client.port, lambda path: path.startswith("/api/call/"), {}) == []
    assert client.get("/health").status == 200


@pytest.mark.slow
def test_no_request_breaks_loops_endpoints(world: ServedNotes) -> None:
    """The same for Loop's endpoints and for our own, with paths that are there and paths that may not be touched."""
    client = world.serve(confined(world), max_body_bytes=1_000_000_000)
    document = client.get("/openapi.json").json
    before = world.outside.read_bytes()
    likely = {"dir_path": [world.here, "/no/such/place"], "path": [str(world.note), str(world.outside)]}

    assert try_all(document, client.port, lambda path: not path.startswith("/api/call/"), likely) == []
    assert world.outside.read_bytes() == before
