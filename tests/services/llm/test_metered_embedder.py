"""What embedders over the wire cost is written down: batches, questions, and what a failing run had made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.models.vendors import VENDORS, Rig

from lorelog.core.errors import ModelUnavailable
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.models.embed import SharedEmbedder
from lorelog.models.embed.fake import FakeEmbedder
from lorelog.services.llm.metered import MeteredEmbedder
from lorelog.services.llm.receipts import Receipts


class Priced(FakeEmbedder):
    """A model whose questions cost three tokens, and whose server goes away."""

    def embed_query_with_usage(self, text: str) -> EmbeddedTexts:
        return EmbeddedTexts((super().embed_query(text),), 0, 3)

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        gone = ModelUnavailable("the server went away")
        gone.done, gone.tokens = {0: b"v"}, 5
        raise gone


def spent(folder: Path) -> list[int]:
    path = folder / "receipts.jsonl"
    return [json.loads(line)["tokens_in"] for line in path.read_text("utf-8").splitlines()] if path.exists() else []


@pytest.mark.parametrize("lent", [False, True])
def test_questions_are_written_down(tmp_path: Path, lent: object) -> None:
    """A question is on the bill with what it cost, in a daemon, too; its vector is the same."""
    inner = SharedEmbedder(Priced()) if lent else Priced()
    asked: Vector = MeteredEmbedder(inner, lambda: Receipts.of_tenant(tmp_path), "/p").embed_query("q")

    assert asked == FakeEmbedder().embed_query("q")
    assert spent(tmp_path) == [3]


@pytest.mark.parametrize("lent", [False, True])
def test_a_question_that_costs_nothing_is_on_no_bill(tmp_path: Path, lent: object) -> None:
    """An embedder that does not say what a question costs is asked as ever."""
    inner = SharedEmbedder(FakeEmbedder()) if lent else FakeEmbedder()

    assert MeteredEmbedder(inner, lambda: Receipts.of_tenant(tmp_path), "/p").embed_query(
        "q"
    ) == FakeEmbedder().embed_query("q")
    assert spent(tmp_path) == []


def test_tokens_of_a_failed_run_are_recorded(tmp_path: Path) -> None:
    """The tokens that come along with an error are on the bill, and the error goes on to whoever asked."""
    with pytest.raises(ModelUnavailable) as caught:
        MeteredEmbedder(Priced(), lambda: Receipts.of_tenant(tmp_path), "/p").embed_documents(["a", "b"])

    assert caught.value.done == {0: b"v"}
    assert spent(tmp_path) == [5]


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
    MeteredEmbedder(Priced(), lambda: Receipts.of_tenant(tmp_path), "/p").embed_query("q")

    assert (tmp_path / "receipts.jsonl").read_text("utf-8").count("\n") == 1
    assert synced == []
