"""The hosts of the end-to-end run."""

from __future__ import annotations

from e2e.hosts import HOSTS

from lorelog.hosts import HOSTS as PROVEN


def test_every_host_with_an_adapter_is_run() -> None:
    """A host counts as proven only if the end-to-end run starts it."""
    assert set(HOSTS) == set(PROVEN)
