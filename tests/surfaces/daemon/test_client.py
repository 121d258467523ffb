"""The client is thin: what it loads, what it sends, how it compares versions."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.surfaces.daemon.conftest import Warm

from lorelog.core.errors import DaemonError
from lorelog.operations.catalogue import OPERATIONS
from lorelog.surfaces.daemon import client
from lorelog.surfaces.daemon.wire import MOST_BYTES, ONCE, forwarded, version_key

HEAVY = {"socket", "selectors", "typing", "dataclasses", "inspect", "subprocess", "pathlib", "contextlib", "asyncio"}
ASK = "from lorelog.surfaces.daemon.client import ask; ask('memory.stats', {}); import sys, json; "
TELL = "print(json.dumps(sorted(sys.modules)))"


def loaded(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_the_warm_way_loads_little(warm: Warm) -> None:
    """Asking a daemon loads none of the heavier parts of the standard library, no other package, and no room of ours."""
    warm.start()
    new = loaded(ASK + TELL) - loaded("import sys, json; " + TELL)

    assert {name for name in new if name.partition(".")[0] in HEAVY} == set()
    ours = {name for name in new if name.startswith("lorelog.")}
    assert {name.split(".")[1] for name in ours} == {"core", "surfaces"}
    assert {name.partition(".")[0] for name in new} - set(sys.stdlib_module_names) == {"lorelog"}


def test_a_request_that_is_too_large_is_not_sent(warm: Warm) -> None:
    """The client says itself that the daemon would not take it, so that the caller can do it alone."""
    with pytest.raises(DaemonError, match="more than the daemon takes"):
        client.ask("memory.add", {"text": "x" * MOST_BYTES}, directory="/")


def test_arguments_that_are_no_json_are_not_sent(warm: Warm) -> None:
    """What cannot be written down is an error before anything is sent."""
    with pytest.raises(DaemonError, match="cannot be sent"):
        client.ask("memory.add", {"text": object()}, directory="/")


@given(st.lists(st.integers(0, 999), min_size=1, max_size=4), st.lists(st.integers(0, 999), min_size=1, max_size=4))
def test_versions_compare_by_their_numbers(one: list[int], other: list[int]) -> None:
    """Versions compare as their numbers do, whatever follows them."""
    first, second = ".".join(map(str, one)), ".".join(map(str, other))

    assert (version_key(first) < version_key(second)) == (one < other)
    assert version_key(first + ".dev1+local") == version_key(first)


@given(st.text())
def test_any_text_is_a_version(text: str) -> None:
    """What is no version is compared all the same, and never raises."""
    assert version_key(text) >= ()


@given(st.dictionaries(st.text(), st.text()))
def test_only_what_is_ours_is_forwarded(environment: dict[str, str]) -> None:
    """Of an environment only lorelog's variables and keys are told, with the home as it was understood."""
    told = forwarded(environment, "/home")

    assert told["LORELOG_HOME"] == "/home"
    assert all(name.startswith("LORELOG_") or name.endswith("_API_KEY") for name in told)
    assert all(told[name] == environment[name] for name in told if name != "LORELOG_HOME")


REPEATABLE = {
    *("memory.delete", "memory.restore", "memory.reset", "memory.set_expiry", "memory.feedback"),
    *("session.capture", "roots.remove", "memory.check_store", "code.index", "code.forget"),
}
"""What may be done twice: the second time changes nothing."""


def test_what_writes_is_done_once_or_does_no_harm_twice() -> None:
    """Every operation that writes says which of both it is; `memory.` may be left out of its name."""
    writes = {name for name, operation in OPERATIONS.items() if operation.writes}

    assert {name for name in ONCE if name in OPERATIONS} == writes - REPEATABLE
    assert {*(writes - REPEATABLE), *(one.removeprefix("memory.") for one in writes - REPEATABLE)} == ONCE
