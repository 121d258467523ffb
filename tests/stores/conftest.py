"""The `store` fixture, which runs the conformance suite over every store.

Milvus is there twice: as a Milvus Lite file, and as a server. Both are started once; each test is a tenant of its own and so has
its own collections. With LORELOG_TEST_MILVUS_URI (and _TOKEN) the suite runs over that server too. Milvus takes most of the
time and shares the catalog with the embedded store, so all but a few of its cases are marked slow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.stores.making import OPENED, PlainAnalyser
from tests.stores.milvus_server import LiteServer, tenant
from tests.stores.test_embedded import check_lanes

from lorelog.core.options import StoreOptions
from lorelog.core.ports import Store
from lorelog.stores.embedded import EmbeddedStore
from lorelog.stores.milvus import MilvusStore

REAL = os.environ.get("LORELOG_TEST_MILVUS_URI", "")


EVERYDAY_MILVUS_TESTS = {
    "test_a_document_comes_back_as_it_went_in",
    "test_words_find_chunks_by_any_term",
    "test_a_put_replaces_the_whole_document",
    "test_dense_ranks_by_cosine",
    "test_both_lanes_asked_together_answer_as_each_alone",
    "test_reset_empties_the_index",
}
"""Conformance tests that run over Milvus Lite in the everyday suite."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        callspec = getattr(item, "callspec", None)
        kind = str(callspec.params.get("store", "")) if callspec else ""
        is_everyday = kind == "milvus-lite" and getattr(item, "originalname", "") in EVERYDAY_MILVUS_TESTS
        if kind.startswith("milvus") and not is_everyday:
            item.add_marker(pytest.mark.slow)


def _milvus(folder: Path, uri: str, token: str = "") -> MilvusStore:
    options = StoreOptions(uri, token)
    return MilvusStore(folder / "index", PlainAnalyser(), options, tenant=tenant(), provider="test", model="m")


STORES: dict[str, Callable[[Path, pytest.FixtureRequest], Store]] = {
    "embedded": lambda folder, request: EmbeddedStore(folder / "index", PlainAnalyser(), provider="test", model="m"),
    "milvus-lite": lambda folder, request: _milvus(folder, request.getfixturevalue("milvus_file")),
    "milvus-server": lambda folder, request: _milvus(folder, request.getfixturevalue("milvus_server").uri),
}
if REAL:
    STORES["milvus-real"] = lambda folder, request: _milvus(
        folder, REAL, os.environ.get("LORELOG_TEST_MILVUS_TOKEN", "")
    )


@pytest.fixture(scope="session")
def milvus_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Milvus Lite file shared by the whole run."""
    return str(tmp_path_factory.mktemp("milvus") / "lite.db")


@pytest.fixture(scope="session")
def milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteServer]:
    """A Milvus server shared by the whole run."""
    server = LiteServer(tmp_path_factory.mktemp("milvus") / "server")
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _close_stores() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


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
    """Assert that after a sweep Milvus holds each chunk of the catalog once, in the right collection."""
    with store.writer() as writer:
        writer.sweep()
    comparison = store.compare()
    assert comparison.is_consistent, comparison
    assert comparison.there == comparison.here
    assert not comparison.waiting
