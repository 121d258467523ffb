"""Every store opens here; the conformance suite runs over all of them.

Milvus is there twice: as Milvus Lite, opened by a file, and as a server that speaks Milvus' protocol, reached by its address.
Both are started once, and each test has collections of its own, since each is a tenant of its own. With
LORELOG_TEST_MILVUS_URI (and _TOKEN) the suite runs over that server too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.stores.making import PlainAnalyser
from tests.stores.milvus_server import LiteServer, tenant
from tests.stores.test_embedded import check_lanes

from lorelog.core.options import StoreOptions
from lorelog.core.ports import Store
from lorelog.stores.embedded import EmbeddedStore
from lorelog.stores.memory import MemoryStore
from lorelog.stores.milvus import MilvusStore

REAL = os.environ.get("LORELOG_TEST_MILVUS_URI", "")


def _milvus(place: Path, uri: str, token: str = "") -> MilvusStore:
    options = StoreOptions(uri, token)
    return MilvusStore(place / "index", PlainAnalyser(), options, tenant=tenant(), provider="test", model="m")


STORES: dict[str, Callable[[Path, pytest.FixtureRequest], Store]] = {
    "memory": lambda place, asked: MemoryStore(PlainAnalyser(), provider="test", model="m"),
    "embedded": lambda place, asked: EmbeddedStore(place / "index", PlainAnalyser(), provider="test", model="m"),
    "milvus-lite": lambda place, asked: _milvus(place, asked.getfixturevalue("milvus_file")),
    "milvus-server": lambda place, asked: _milvus(place, asked.getfixturevalue("milvus_server").uri),
}
if REAL:
    STORES["milvus-real"] = lambda place, asked: _milvus(place, REAL, os.environ.get("LORELOG_TEST_MILVUS_TOKEN", ""))


@pytest.fixture(scope="session")
def milvus_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of Milvus Lite that a whole run shares."""
    return str(tmp_path_factory.mktemp("milvus") / "lite.db")


@pytest.fixture(scope="session")
def milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteServer]:
    """A server that a whole run shares."""
    server = LiteServer(tmp_path_factory.mktemp("milvus") / "server")
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Each store in turn, empty."""
    opened = STORES[request.param](tmp_path, request)
    yield opened
    if isinstance(opened, EmbeddedStore):
        check_lanes(opened)
    elif isinstance(opened, MilvusStore):
        check_rows(opened)
    opened.close()


def check_rows(store: MilvusStore) -> None:
    """After a sweep Milvus holds exactly what the catalog holds, each chunk once, where it belongs."""
    with store.writer() as writer:
        writer.sweep()
    found = store.compare()
    assert found.is_whole, found
    assert found.there == found.here
    assert not found.waiting
