"""What every test gets: an empty home, a clean environment, and no network beyond this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from tests.examples import EVERYDAY_EXAMPLES

from lorelog.core.caller import AGENT_MARKERS

# The same examples on every run, also on a slow machine. The everyday tests try a few examples of each property, `make test-rest`
# all of them (LORELOG_TEST_EXAMPLES=all). LORELOG_TEST_EXPLORE=1 looks for new examples.
_SUPPRESSED = [HealthCheck.too_slow]
settings.register_profile(
    "everyday", derandomize=True, deadline=None, max_examples=EVERYDAY_EXAMPLES, suppress_health_check=_SUPPRESSED
)
settings.register_profile("all", derandomize=True, deadline=None, suppress_health_check=_SUPPRESSED)
settings.register_profile("explore", deadline=None, suppress_health_check=_SUPPRESSED)
if os.environ.get("LORELOG_TEST_EXPLORE"):
    settings.load_profile("explore")
else:
    settings.load_profile("all" if os.environ.get("LORELOG_TEST_EXAMPLES") == "all" else "everyday")
    # Hypothesis also draws constants of the modules imported so far. Which ones a worker has imported depends on how the
    # tests were shared out, so the same tree would be tried with other examples on every run.
    providers._get_local_constants = lambda: providers._local_constants


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark property tests, so that `make test-rest` can run them with all their examples."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("property")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that nothing of the person's is read or written."""
    place = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        is_setting = name.startswith("LORELOG_") or name.endswith("_API_KEY")
        # A test acts for a person, also where an agent runs it.
        if is_setting or name in {"OPENAI_BASE_URL", "NO_COLOR", "COLUMNS"} or name in AGENT_MARKERS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setenv("LORELOG_HOME", str(place / ".lorelog"))
    monkeypatch.setenv("LORELOG_DAEMON_WARM", "off")  # those that are about the daemon say so
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    return place / ".lorelog"


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections leave this machine for no test."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if self.family != socket.AF_UNIX and host not in {"127.0.0.1", "::1", "localhost"}:
            raise OSError(f"the network is off in tests: {address}")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", connect_here)
