"""Every call of a language model passes one gate: allowed before, written down after, and never a secret in it; embedders over the wire are written down, too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.models.vendors import VENDORS, Rig
from tests.services.llm.scripted_model import ScriptedLanguageModel, receipts_in

from lorelog.core.errors import ConfigError, ModelFault, ModelUnavailable, StoreError
from lorelog.core.ports import Completion, EmbeddedTexts, Embedder
from lorelog.models.embed import SharedEmbedder
from lorelog.models.embed.fake import FakeEmbedder
from lorelog.services.llm.metered import LlmBudget, MeteredEmbedder, MeteredLlm
from lorelog.services.llm.receipts import PURPOSE_EMBEDDING, ModelCall, Receipts


def gate(folder: Path, model: Any, daily_tokens: int = 100_000, window_tokens: int = 0) -> MeteredLlm:
    return MeteredLlm(model, Receipts.of_tenant(folder), LlmBudget(daily_tokens, 60.0, window_tokens, "/p"))


def test_a_call_has_a_receipt(tmp_path: Path) -> None:
    """The model is asked what it is to be asked, and the receipt tells who, for what, whose and what was reserved."""
    model = ScriptedLanguageModel()
    way = gate(tmp_path, model, window_tokens=9000)

    assert way.ask("compact", "Sum up.", "All of it.", 500) == Completion("done", 100, 20)

    assert model.asked == [("Sum up.", "All of it.", 500)]
    assert (way.provider, way.model, way.window_tokens) == ("test", "one", 9000)
    started, ended = receipts_in(tmp_path)
    assert started["reserved"] == way.max_cost("Sum up.", "All of it.", 500) > 540
    assert [ended[name] for name in ("purpose", "project", "provider", "model")] == ["compact", "/p", "test", "one"]
    assert (ended["outcome"], ended["tokens_in"], ended["tokens_out"]) == ("ok", 100, 20)


@pytest.mark.parametrize(
    ("error", "outcome", "charged"),
    [
        (ModelUnavailable("no server"), "unavailable", False),
        (ModelFault("odd"), "fault", True),
        (ConfigError("bad address"), "failed", False),
        (RuntimeError("a bug"), "failed", True),
        (KeyboardInterrupt(), "failed", True),
    ],
)
def test_an_error_of_a_model_is_raised_and_recorded(
    tmp_path: Path, error: BaseException, outcome: str, *, charged: bool
) -> None:
    """What may have been charged for counts in full, what was not does not count, and the caller learns what happened."""
    with pytest.raises(type(error)) as raised:
        gate(tmp_path, ScriptedLanguageModel(error)).ask("compact", "s", "t", 500)

    assert raised.value is error
    started, ended = receipts_in(tmp_path)
    assert (ended["outcome"], ended["tokens_in"]) == (outcome, started["reserved"] if charged else 0)


@pytest.mark.parametrize("said", ["", " \n\t"])
def test_a_blank_answer_is_a_fault_that_was_paid_for(tmp_path: Path, said: str) -> None:
    """Nothing is no answer, and its real cost counts."""
    with pytest.raises(ModelFault, match="no usable answer"):
        gate(tmp_path, ScriptedLanguageModel(said)).ask("compact", "s", "t", 500)

    ended = receipts_in(tmp_path)[-1]
    assert (ended["outcome"], ended["tokens_in"], ended["tokens_out"]) == ("unusable", 100, 20)


def test_a_caller_can_reject_an_answer(tmp_path: Path) -> None:
    """An answer that does not suit is a fault, also where it is a text."""
    way = gate(tmp_path, ScriptedLanguageModel("prose"))

    with pytest.raises(ModelFault):
        way.ask("compact", "s", "t", 500, is_usable=lambda text: text.startswith("- "))
    assert way.ask("compact", "s", "t", 500, is_usable=lambda text: text == "prose").text == "prose"


@pytest.mark.parametrize(("told", "counted"), [((0, 0), 0), ((0, 20), 20), ((100, 0), 100), ((100, 20), 120)])
def test_an_unknown_side_of_the_usage_counts_in_full(tmp_path: Path, told: tuple[int, int], counted: int) -> None:
    """An Ollama that had the question in its cache says nothing of it: what it might have been is spent."""
    gate(tmp_path, ScriptedLanguageModel(tokens=told)).ask("compact", "s", "t", 500)

    started, ended = receipts_in(tmp_path)
    unsaid = (0 if told[0] else started["reserved"] - 500) + (0 if told[1] else 500)
    assert ended["tokens_in"] + ended["tokens_out"] == counted + unsaid


def test_a_text_beyond_the_window_is_not_sent(tmp_path: Path) -> None:
    """A model that would read a part of it silently is not asked at all; what just fits is."""
    model = ScriptedLanguageModel()
    cost = gate(tmp_path, model).max_cost("s", "word " * 2000, 500)

    with pytest.raises(ModelFault, match=f"context window of one is {cost - 1:,}"):
        gate(tmp_path, model, window_tokens=cost - 1).ask("compact", "s", "word " * 2000, 500)
    assert (model.asked, receipts_in(tmp_path)) == ([], [])
    assert gate(tmp_path, model, window_tokens=cost).ask("compact", "s", "word " * 2000, 500).text == "done"


def test_a_receipt_that_cannot_be_settled_costs_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer was paid for: it is given, and what was reserved goes on counting."""

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(Receipts, "settle", full)

    assert gate(tmp_path, ScriptedLanguageModel()).ask("compact", "s", "t", 500).text == "done"
    assert Receipts.of_tenant(tmp_path).spent_today("compact") == receipts_in(tmp_path)[0]["reserved"]


def test_a_model_that_took_too_long_counts_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout may have been charged."""
    clock = iter([0.0, 60.0, 60.0])
    monkeypatch.setattr("lorelog.services.llm.metered.time.monotonic", lambda: next(clock))
    # It looks at the clock too.
    monkeypatch.setattr("lorelog.services.llm.receipts.acquire_file_lock", lambda descriptor, wait_s: True)

    with pytest.raises(ModelUnavailable):
        gate(tmp_path, ScriptedLanguageModel(ModelUnavailable("no answer"))).ask("compact", "s", "t", 500)
    started, ended = receipts_in(tmp_path)
    assert (ended["outcome"], ended["tokens_in"]) == ("timeout", started["reserved"])


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
    (call,) = receipts.usage_since("2020-01-01")[0]
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
