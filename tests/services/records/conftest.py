"""Clients and records that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.records.desk import OperationCaller
from tests.services.records.scopes import record_scope

from lorelog.services.records.record_scope import RecordScope


@pytest.fixture
def desk(tmp_path: Path, home: Path) -> Iterator[OperationCaller]:
    """A client in a project."""
    made = OperationCaller(tmp_path / "app", home)
    yield made
    made.close()


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[RecordScope]:
    """The records of an empty project."""
    place = tmp_path / "app"
    place.mkdir()
    with record_scope(place) as opened:
        yield opened
