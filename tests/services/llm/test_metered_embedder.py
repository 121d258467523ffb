"""What embedders over the wire cost is written down: batches, questions, and what a failing run had made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.models.vendors import VENDORS, Rig

from lorelog.core.errors import ModelUnavailable
from lorelog.core.ports import EmbeddedTexts, Embedder
from lorelog.models.embed import SharedEmbedder
from lorelog.models.embed.fake import FakeEmbedder
from lorelog.services.llm.metered import MeteredEmbedder
from lorelog.services.llm.receipts import PURPOSE_EMBEDDING, ModelCall, Receipts


class Priced(FakeEmbedder):
    """A model whose questions cost three tokens, and whose batches seventy until its server goes away."""

    is_gone = is_closed = False
    batch_cost = 70

    def embed_query_with_usage(self, text: str) -> EmbeddedTexts:
        return EmbeddedTexts((super().embed_query(text),), 0, 3)

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        gone = ModelUnavailable("the server went away")
        gone.done, gone.tokens = {0: b"v"}, 5
        if self.is_gone:
            raise gone
        return EmbeddedTexts((b"v",) * len(texts), 1, self.batch_cost)

    def close(self) -> None:
        self.is_closed = True


def metered(folder: Path, inner: Embedder) -> MeteredEmbedder:
    return MeteredEmbedder(inner, lambda: Receipts.of_tenant(folder), "/p")


def spent(folder: Path) -> list[int]:
    path = folder / "receipts.jsonl"
    return [json.loads(line)["tokens_in"] for line in path.read_text("utf-8").splitlines()] if path.exists() else []


@pytest.mark.parametrize("lent", [False, True])
@pytest.mark.parametrize(("model", "cost"), [(Priced, [3]), (FakeEmbedder, [])])
def test_questions_are_recorded(tmp_path: Path, model: type[FakeEmbedder], cost: list[int], lent: object) -> None:
    """A question is recorded with its cost, in a daemon too, if the model tells it; its vector is the same."""
    inner = SharedEmbedder(model()) if lent else model()

    assert metered(tmp_path, inner).embed_query("q") == FakeEmbedder().embed_query("q")
    assert spent(tmp_path) == cost


def test_batches_are_recorded(tmp_path: Path) -> None:
    """A batch has one receipt with model, project and tokens; a provider that reports none has no receipt."""
    inner = Priced()
    counted = metered(tmp_path, inner)

    assert counted.embed_documents(["a"]) == EmbeddedTexts((b"v",), 1, 70)
    inner.batch_cost = 0
    counted.embed_documents(["a"])
    counted.close()

    assert inner.is_closed
    receipts = Receipts.of_tenant(tmp_path)
    (call,) = receipts.usage_since("2020-01-01").calls
    assert call.call == ModelCall(PURPOSE_EMBEDDING, inner.provider, inner.model, project="/p")
    assert (call.status, call.tokens_in, call.tokens_out) == ("ok", 70, 0)


def test_tokens_of_a_failed_run_are_recorded(tmp_path: Path) -> None:
    """The tokens that an error carries are recorded, and the error is raised."""
    inner = Priced()
    inner.is_gone = True
    with pytest.raises(ModelUnavailable) as caught:
        metered(tmp_path, inner).embed_documents(["a", "b"])

    assert caught.value.done == {0: b"v"}
    assert spent(tmp_path) == [5]


def test_vectors_are_returned_without_a_receipt(tmp_path: Path) -> None:
    """If the receipt cannot be written, the vectors are returned all the same."""
    (tmp_path / "receipts.jsonl").mkdir()

    assert metered(tmp_path, Priced()).embed_documents(["a"]).vectors == (b"v",)


def test_searches_are_on_the_bill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lorelog status cost` counts the tokens of an index run and of the searches after it."""
    from lorelog.surfaces.cli.main import main

    vendor, rig = VENDORS["openai"], Rig()
    server = rig.serve(vendor.well)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("otters sleep in rivers\n", "utf-8")
    monkeypatch.setenv("LORELOG_EMBEDDING_PROVIDER", "openai")
    monkeypatch.setenv("LORELOG_EMBEDDING_BASE_URL", server.url)
    home = tmp_path / "home"
    monkeypatch.setenv("LORELOG_HOME", str(home))
    try:
        for words in (["index", "."], ["search", "otters"], ["search", "rivers"]):
            assert main(words) == 0
    finally:
        rig.stop()

    assert sum(spent(home / "data" / "default")) == 7 * len(server.requests)
    assert len(server.requests) >= 3


def test_a_receipt_of_an_embedding_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search and an index do not wait until the receipt of their embedding is on the disk: no limit depends on it."""
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    metered(tmp_path, Priced()).embed_query("q")

    assert (tmp_path / "receipts.jsonl").read_text("utf-8").count("\n") == 1
    assert synced == []
