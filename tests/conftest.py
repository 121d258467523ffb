"""What every test gets: an empty home, a clean environment, and no network beyond this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples each time, so that a run says the same twice, on a slow machine too. LORELOG_TEST_EXPLORE=1 looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("exploring", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("exploring" if os.environ.get("LORELOG_TEST_EXPLORE") else "repeatable")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that nothing of the person's is read or written."""
    place = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith("LORELOG_") or name.endswith("_API_KEY") or name in {"OPENAI_BASE_URL", "NO_COLOR"}:
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
