"""The client: which modules it loads, what it sends, how it compares versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.daemon.conftest import Warm

from lorelog.core.errors import DaemonError
from lorelog.light import daemon_client as client
from lorelog.light.daemon_connection import (
    FORWARDED_VARIABLES,
    MAX_REQUEST_BYTES,
    NON_IDEMPOTENT,
    forwarded_environment,
    version_key,
)
from lorelog.operations.catalogue import all_operations


def test_a_request_that_is_too_large_is_not_sent(warm: Warm) -> None:
    """The client rejects an oversized request itself, so that the caller can do the work locally."""
    with pytest.raises(DaemonError, match="accepts at most"):
        client.call_daemon("memory.add", {"text": "x" * MAX_REQUEST_BYTES}, directory="/")


def test_arguments_that_are_not_json_are_not_sent(warm: Warm) -> None:
    """Arguments that JSON cannot encode are rejected before anything is sent."""
    with pytest.raises(DaemonError, match="cannot encode"):
        client.call_daemon("memory.add", {"text": object()}, directory="/")


VERSIONS = st.lists(st.integers(0, 999), min_size=1, max_size=4)


@given(VERSIONS, VERSIONS, st.text())
def test_versions_compare_by_their_numbers(numbers: list[int], others: list[int], text: str) -> None:
    """Versions compare by their numbers; suffixes are ignored; text that is not a version can be compared too."""
    assert version_key(text) >= ()
    first, second = ".".join(map(str, numbers)), ".".join(map(str, others))

    assert (version_key(first) < version_key(second)) == (numbers < others)
    assert version_key(first + ".dev1+local") == version_key(first)


@given(st.dictionaries(st.text(), st.text()))
def test_only_what_is_ours_is_forwarded(environment: dict[str, str]) -> None:
    """Only lorelog's variables and API keys are forwarded, with the resolved home."""
    forwarded = forwarded_environment(environment, "/home")
    others = forwarded.keys() - set(FORWARDED_VARIABLES)

    assert forwarded["LORELOG_HOME"] == "/home"
    assert all(name.startswith("LORELOG_") or name.endswith("_API_KEY") for name in others)
    assert all(forwarded[name] == environment[name] for name in forwarded if name != "LORELOG_HOME")


REPEATABLE = {
    *("memory.delete", "memory.restore", "memory.reset", "memory.set_expiry", "memory.feedback"),
    *("session.capture", "roots.remove", "memory.check_store", "code.index", "code.forget"),
    *("guard.add", "guard.enable", "debug.friction"),
    "sync.exchange",
}
"""Operations that can be repeated without effect."""


def test_what_writes_is_done_once_or_does_no_harm_twice() -> None:
    """Every writing operation is listed as repeatable or not, with and without the prefix `memory.`."""
    writes = {name for name, operation in all_operations().items() if operation.writes}

    assert {name for name in NON_IDEMPOTENT if name in all_operations()} == writes - REPEATABLE
    assert {*(writes - REPEATABLE), *(name.removeprefix("memory.") for name in writes - REPEATABLE)} == NON_IDEMPOTENT
