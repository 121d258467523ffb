"""docs/json.md describes what `warm` and `doctor` print, field by field and in both directions."""

from __future__ import annotations

import pytest
from tests.docs.test_json_page import documented, fields
from tests.surfaces.conftest import Shell
from tests.surfaces.daemon.conftest import Warm, eventually


def without(names: set[str], *below: str) -> set[str]:
    """Leave out what stands below some fields: other pages and sections have it."""
    return {name for name in names if not any(name.startswith((f"{one}.", f"{one}[")) for one in below)}


def test_warm_is_documented(warm: Warm, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field of the daemon's status is documented, and no other; `watch` is on its own page."""
    monkeypatch.setenv("LORELOG_DAEMON_HTTP", "on")
    monkeypatch.setenv("LORELOG_HTTP_PORT", "0")
    started = shell("warm", "start", "--json").json
    eventually(lambda: warm.status()["http"] and warm.status()["watch"])
    found = {*fields(started), *fields(shell("warm", "status", "--json").json)}
    stopped = set(fields(shell("warm", "stop", "--json").json))
    seldom = {
        "at_work[].op",
        "at_work[].seconds",
        *(f"last_error.{name}" for name in ("op", "code", "message", "ago_s")),
    }

    assert without(found, "watch", "at_work", "last_error") | seldom == documented("warm")
    assert stopped == documented("warm stop")


def test_doctor_is_documented(warm: Warm, shell: Shell) -> None:
    """Every field of doctor is documented, and no other."""
    warm.start()

    assert without(set(fields(shell("doctor", "--json").json)), "daemon") == documented("doctor")
