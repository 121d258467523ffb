"""Milvus down, refusing, restarting or losing data: a clear error, nothing lost, and the next run completes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.stores.making import ALL, fill, search_texts, update, vector
from tests.stores.milvus_server import LiteServer, tenant
from tests.stores.test_milvus import ask, names, open_store

from lorelog.core.errors import StoreBusy, StoreError, StoreIncompatible, StoreUnreachable
from lorelog.core.options import DEFAULT_COLLECTION
from lorelog.stores.milvus.client import Collections
from lorelog.stores.milvus.schema import collection_name, make_collection


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiteServer]:
    """A server that tests may kill and restart."""
    server = LiteServer(tmp_path_factory.mktemp("mortal"))
    server.start()
    yield server
    server.stop()


@pytest.mark.slow
def test_a_server_that_is_down_is_named_and_nothing_is_lost(tmp_path: Path, mortal: LiteServer) -> None:
    """While the server is down, searches and writes fail without a change and the catalog answers; then all works again."""
    store = open_store(tmp_path, mortal.uri, retry_s=0.2)
    fill(store, "alpha old")
    mortal.kill()

    with pytest.raises(StoreUnreachable, match=mortal.uri) as caught:
        store.propose([], None, ALL, 5)[0] or search_texts(store, "alpha")
    assert "store.uri" in caught.value.hint
    with pytest.raises(StoreUnreachable):
        store.propose((), vector(1, 9), ALL, 5)[1]
    with pytest.raises(StoreUnreachable), store.writer() as writer:
        writer.put([update("/a.md", ["alpha new"], size=2)])
    assert [stored.chunk.text for stored in store.chunks_of("/a.md")] == ["alpha old"]
    assert store.coverage(ALL).with_vectors == 1

    mortal.start()
    assert search_texts(store, "alpha") == ["alpha old"]
    fill(store, "alpha new")
    assert search_texts(store, "alpha") == ["alpha new"]
    assert store.compare().is_consistent


@pytest.mark.slow
def test_a_server_that_dies_inside_a_put_leaves_the_old_version(
    tmp_path: Path, mortal: LiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A put that was sent in part is undone; the next one completes, and nothing of the first is left."""
    store = open_store(tmp_path, mortal.uri, retry_s=0.2)
    fill(store, "alpha old")
    whole = Collections.send

    def send(self: Collections, name: str, rows: Any) -> None:
        whole(self, name, rows[:1])
        mortal.kill()
        whole(self, name, rows)

    with monkeypatch.context() as patched:
        patched.setattr(Collections, "send", send)
        with pytest.raises(StoreUnreachable), store.writer() as writer:
            writer.put([update("/a.md", ["alpha new", "alpha newer"], size=2)])
    assert [stored.chunk.text for stored in store.chunks_of("/a.md")] == ["alpha old"]

    mortal.start()
    assert search_texts(store, "alpha") == ["alpha old"]
    fill(store, "alpha new", "alpha newer")
    assert search_texts(store, "alpha") == ["alpha new", "alpha newer"]
    with store.writer() as writer:
        writer.sweep()
    assert store.compare().is_consistent


@pytest.mark.slow
def test_a_restart_in_the_middle_is_waited_for(tmp_path: Path, mortal: LiteServer) -> None:
    """A restart within the retry time costs only time."""
    store = open_store(tmp_path, mortal.uri, retry_s=60.0)
    fill(store, "alpha 0")
    mortal.kill()
    back = threading.Timer(0.5, mortal.start)
    back.start()

    fill(store, "alpha 0", "alpha 1")

    back.join()
    assert search_texts(store, "alpha") == ["alpha 0", "alpha 1"]
    assert store.compare().is_consistent


@pytest.mark.slow
def test_an_absent_server_is_reported_soon(tmp_path: Path) -> None:
    """A server that never answered is retried only briefly, and the catalog is unchanged."""
    store = open_store(tmp_path, "http://127.0.0.1:9", retry_s=3600.0)

    with pytest.raises(StoreUnreachable, match="cannot be reached"):
        fill(store, "alpha")

    assert store.documents() == []


@pytest.mark.parametrize("recreated", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "first", ["search", pytest.param("write", marks=pytest.mark.slow), pytest.param("doctor", marks=pytest.mark.slow)]
)
def test_a_lost_collection_is_filled_again(
    tmp_path: Path, milvus_server: LiteServer, monkeypatch: pytest.MonkeyPatch, first: str, *, recreated: bool
) -> None:
    """A collection that was dropped or replaced is filled again from the catalog."""
    monkeypatch.setattr("lorelog.stores.milvus.lanes._CHECK_TTL_S", 0.0)
    store = open_store(tmp_path, milvus_server.uri)
    fill(store, "alpha one", "beta two")
    (name,) = names(store)
    ask(store, lambda client: client.drop_collection(name))
    if recreated:
        ask(store, lambda client: make_collection(client, name, 2))

    if first == "write":
        fill(store, "alpha three", source="/b.md")
    elif first == "doctor":
        told = store.compare(repair=True)
        assert (told.here, told.there, told.missing) == (2, 0, 2)
    elif recreated:
        assert (
            search_texts(store, "alpha") == []
        )  # that it is another one is found out by the next write, or by the doctor
        with store.writer():
            pass

    assert "alpha one" in search_texts(store, "alpha")
    assert len(store.propose((), vector(1, 9), ALL, 10)[1]) == store.coverage(ALL).with_vectors
    assert store.compare().is_consistent


@pytest.mark.slow
def test_rows_that_somebody_deleted_or_added_are_told_and_mended(tmp_path: Path, milvus_server: LiteServer) -> None:
    """Missing, surplus and vectorless rows are counted, and repaired only on request."""
    store = open_store(tmp_path, milvus_server.uri)
    fill(store, "alpha one", "alpha two", "alpha three")
    (name,) = names(store)
    (home,) = {row["home"] for row in ask(store, lambda c: c.query(name, filter="row == 1", output_fields=["home"]))}
    (other,) = ask(store, lambda client: client.query(name, filter="row == 2", output_fields=["*"]))
    for field in ("content", "sparse_vector"):
        other.pop(field, None)
    ask(store, lambda client: client.delete(name, filter="row == 1"))
    stray = {**other, "content": "alpha", "key": f"{home}:77", "row": 77}
    bare = {**other, "content": "alpha", "dense_vector": [0.0, 0.0], "has_vector": False}
    ask(store, lambda client: client.upsert(name, [stray, bare]))

    for _ in range(2):
        told = store.compare()
        assert (told.missing, told.surplus, told.unlike) == (1, 1, 1)
    assert store.compare(repair=True).repaired

    assert store.compare().is_consistent
    assert search_texts(store, "alpha") == ["alpha one", "alpha three", "alpha two"]
    assert len(store.propose((), vector(1, 9), ALL, 10)[1]) == 3


@pytest.mark.slow
def test_a_collection_of_another_dimension_is_named(tmp_path: Path, milvus_server: LiteServer) -> None:
    """A collection of our name with another dimension is reported, and the catalog is unchanged."""
    store = open_store(tmp_path, milvus_server.uri)
    fill(store, "alpha")
    taken = collection_name(DEFAULT_COLLECTION, store._tenant, "/q", "test/m", 2)
    ask(store, lambda client: make_collection(client, taken, 5))

    with pytest.raises(StoreIncompatible, match="dimension"):
        fill(store, "beta", source="/b.md", project="/q")

    assert search_texts(store, "alpha") == ["alpha"]
    assert [document.source for document in store.documents()] == ["/a.md"]


class _Refusing(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers every call with one status."""

    def __init__(self, status: grpc.StatusCode) -> None:
        self._status = status
        self.calls = 0

    def service(self, handler_call_details: Any) -> Any:
        def refuse(request: bytes, context: Any) -> bytes:
            self.calls += 1
            context.abort(self._status, "no")
            return b""

        return grpc.unary_unary_rpc_method_handler(refuse)


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, StoreUnreachable, "rejects the token"),
        (grpc.StatusCode.PERMISSION_DENIED, StoreUnreachable, "rejects the token"),
        (grpc.StatusCode.UNAVAILABLE, StoreUnreachable, "cannot be reached"),
        (grpc.StatusCode.INTERNAL, StoreError, "127.0.0.1"),
    ],
    ids=lambda value: str(getattr(value, "name", "")),
)
def test_a_server_that_refuses_is_named(
    tmp_path: Path, status: grpc.StatusCode, kind: type[StoreError], said: str
) -> None:
    """A wrong token is reported, and no error contains the token."""
    refusing = _Refusing(status)
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((refusing,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    store = open_store(tmp_path, f"http://127.0.0.1:{port}", token="tok-secret", retry_s=0.1)
    try:
        with pytest.raises(kind, match=said) as caught:
            fill(store, "alpha")
    finally:
        store.close()
        server.stop(None)

    assert refusing.calls
    assert "tok-secret" not in caught.value.message + caught.value.hint
    assert store.documents() == []


@pytest.mark.slow
def test_a_server_that_takes_no_more_is_asked_again(tmp_path: Path, milvus_server: LiteServer) -> None:
    """A rate limit is retried with pauses, and reported if it does not end."""
    from pymilvus.exceptions import MilvusException

    store = open_store(tmp_path, milvus_server.uri, retry_s=5.0)
    fill(store, "alpha")
    refused = iter([True, True, False])

    def call(client: Any) -> str:
        if next(refused):
            raise MilvusException(8, "request is rejected by rate limiter, rate limit exceeded")
        return "done"

    assert ask(store, call) == "done"
    refused = iter([True] * 100)
    with pytest.raises(StoreBusy, match="accepts no more requests"):
        store._remote.call(call, patience_s=0.3)


@pytest.mark.slow
def test_a_push_that_was_broken_off_goes_on(
    tmp_path: Path, milvus_server: LiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted push resumes, and in the end every row is there once."""
    monkeypatch.setattr("lorelog.stores.milvus.lanes._SAVE_INTERVAL_ROWS", 2)
    of = tenant()
    store = open_store(tmp_path, milvus_server.uri, of=of)
    fill(store, *(f"alpha {number}" for number in range(10)))
    again = open_store(tmp_path, milvus_server.uri, of=of, version="plain 2")
    sent: list[int] = []
    whole = Collections.send

    def send(self: Collections, name: str, rows: Any) -> None:
        if sum(sent) > 5:
            raise StoreUnreachable("gone")
        sent.append(len(rows))
        whole(self, name, rows)

    with monkeypatch.context() as patched:
        patched.setattr(Collections, "send", send)
        with pytest.raises(StoreUnreachable), again.writer():
            pass
    broken = sum(sent)

    def count(self: Collections, name: str, rows: Any) -> None:
        sent.append(len(rows))
        whole(self, name, rows)

    monkeypatch.setattr(Collections, "send", count)
    with again.writer():
        pass

    assert broken > 5
    assert sum(sent) < broken + 10
    assert search_texts(again, "alpha") == sorted(f"alpha {number}" for number in range(10))
    assert again.compare().is_consistent
