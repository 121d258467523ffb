"""docs/json.md documents the output of `daemon` and `doctor`, field by field and in both directions."""

from __future__ import annotations

import pytest
from tests.docs.test_json_page import documented, fields
from tests.surfaces.conftest import Shell, write
from tests.surfaces.daemon.conftest import Warm, eventually

WATCH_ERROR = {f"watch.last_error.{name}" for name in ("at", "message", "hint")}
RARE = {
    *("at_work[].op", "at_work[].seconds", "readers[].pid", "readers[].calls", "readers[].rss_bytes"),
    *(f"last_error.{name}" for name in ("op", "code", "message", "ago_s")),
    *WATCH_ERROR,
}
"""Fields of objects that are null or lists that are empty while nothing runs and nothing failed."""


@pytest.mark.slow
def test_daemon_status_is_documented(warm: Warm, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field of `daemon start|status|stop` is documented, those of `watch` included, and no other."""
    monkeypatch.setenv("LORELOG_DAEMON_HTTP", "on")
    monkeypatch.setenv("LORELOG_HTTP_PORT", "0")
    started = shell("daemon", "start", "--json").json
    write(warm.project / "notes" / "a.md", "# A\n\nalpha\n")
    assert shell("index", "notes").status == 0
    eventually(lambda: warm.status()["http"] and (warm.status()["watch"] or {}).get("roots"), "it serves and watches")
    write(warm.project / "notes" / "b.md", "# B\n\nbeta\n")
    eventually(lambda: warm.status()["watch"]["last_pass"], "a change is indexed")
    status = {*fields(started), *fields(shell("daemon", "status", "--json").json)}
    stopped = set(fields(shell("daemon", "stop", "--json").json))

    assert status | RARE == documented("daemon")
    assert stopped == documented("daemon stop")


@pytest.mark.slow
def test_doctor_is_documented(warm: Warm, shell: Shell) -> None:
    """Every field of `doctor` is documented, and no other; `daemon` has the fields of `daemon status`."""
    warm.start()
    names = set(fields(shell("doctor", "--json").json))
    own = {name for name in names if not name.startswith("daemon.")}

    assert own == documented("doctor")
    assert {name.removeprefix("daemon.") for name in names - own} <= documented("daemon")
