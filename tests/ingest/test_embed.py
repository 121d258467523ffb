"""Texts are embedded in batches, and replies of models are checked."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.errors import ModelFault, ModelUnavailable
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.ingest.embed import BatchSizer, EmbedReport, embed_texts
from lorelog.models.embed.fake import FakeEmbedder

Reply = Callable[[Sequence[str]], EmbeddedTexts]


class ScriptedModel:
    """A model that returns the given replies and records its requests."""

    provider = "test"
    model = "answering"

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[list[str]] = []
        self._replies = list(replies)

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        self.requests.append(list(texts))
        return (self._replies.pop(0) if len(self._replies) > 1 else self._replies[0])(texts)

    def embed_query(self, text: str) -> Vector:
        raise NotImplementedError

    def close(self) -> None:
        pass


def packed(*numbers: float) -> Vector:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def each(*numbers: float, truncated: int = 0, tokens: int = 0) -> Reply:
    return lambda texts: EmbeddedTexts((packed(*numbers),) * len(texts), truncated, tokens)


def exactly(*vectors: Vector) -> Reply:
    return lambda texts: EmbeddedTexts(vectors)


def failing(texts: Sequence[str]) -> EmbeddedTexts:
    raise ModelUnavailable("the server is gone")


def test_every_key_gets_the_vector_of_its_text() -> None:
    """Each key receives the vector of its own text exactly once, in any order of work."""
    texts = {f"key{number}": f"text {'long ' * (number % 7)}{number}" for number in range(50)}
    got: dict[str, Vector] = {}
    report = embed_texts(FakeEmbedder(), texts, got.update, sizer=BatchSizer(8))
    assert got == {key: FakeEmbedder().embed_query(text) for key, text in texts.items()}
    assert (report.embedded, report.dimension) == (50, 64)


def test_batches_are_bounded_and_hold_texts_of_like_length() -> None:
    """No batch exceeds the size, and each holds texts of similar length."""
    model = ScriptedModel(each(1.0))
    embed_texts(model, {str(number): "x" * number for number in range(10)}, lambda batch: None, sizer=BatchSizer(4))
    assert sorted([len(text) for text in texts] for texts in model.requests) == [[1, 0], [5, 4, 3, 2], [9, 8, 7, 6]]


def test_the_first_batch_is_small_and_the_limit_holds() -> None:
    """The first batch has eight texts and fast ones grow to the limit; a limit of zero (not set) means 32."""
    model = ScriptedModel(each(1.0))
    embed_texts(model, {str(number): "x" for number in range(120)}, lambda batch: None, sizer=BatchSizer(0))
    assert [len(texts) for texts in model.requests] == [8, 16, 8, 32, 32, 24]


def test_a_slow_model_gets_short_batches_and_a_distant_one_large_batches() -> None:
    """Batches shrink to about a second where time grows with the texts, and grow where it does not."""
    slow, distant = BatchSizer(64), BatchSizer(64)
    for _ in range(8):
        slow.record(100 * slow.size, 0.25 * slow.size)
        distant.record(100 * distant.size, 3.0)

    assert (slow.size, distant.size) == (8, 64)


def test_nothing_to_embed_asks_no_model() -> None:
    """Without texts there is no request and no batch, and the report is empty."""
    model = ScriptedModel(failing)
    batches: list[Mapping[str, Vector]] = []
    assert embed_texts(model, {}, batches.append) == EmbedReport()
    assert batches == []


def test_counts_are_added_up() -> None:
    """The report sums truncated texts and tokens over all batches."""
    model = ScriptedModel(each(1.0, truncated=1, tokens=10), each(1.0, truncated=2, tokens=20))
    report = embed_texts(model, {str(number): "x" for number in range(4)}, lambda batch: None, sizer=BatchSizer(2))
    assert report == EmbedReport(embedded=4, truncated=3, tokens=30, dimension=1)


def test_batches_before_a_failure_are_passed_on() -> None:
    """Batches before a failure have already been passed on."""
    got: dict[str, Vector] = {}
    with pytest.raises(ModelUnavailable, match="gone"):
        embed_texts(
            ScriptedModel(each(1.0), failing), {"a": "aaa", "b": "bb", "c": "c"}, got.update, sizer=BatchSizer(1)
        )
    assert set(got) == {"a"}


@pytest.mark.parametrize(
    ("replies", "message"),
    [
        ([exactly(packed(1.0))], "1 vectors for 2 texts"),
        ([exactly(packed(1.0), packed(1.0), packed(1.0))], "3 vectors for 2 texts"),
        ([exactly(b"", b"")], "empty vector"),
        ([exactly(b"12345", b"12345")], "not a sequence of 32-bit numbers"),
        ([exactly(packed(1.0), packed(1.0, 2.0))], "different dimensions: 1, 2"),
        ([each(1.0, 0.0), each(1.0, 0.0, 0.0)], "different dimensions: 2, 3"),
        ([exactly(packed(1.0), packed(math.nan))], "not finite"),
        ([exactly(packed(1.0), packed(math.inf))], "not finite"),
    ],
)
def test_a_malformed_reply_is_a_fault(replies: list[Reply], message: str) -> None:
    """A reply without exactly one valid vector per text raises a fault that names the model, and is not passed on."""
    good: list[Mapping[str, Vector]] = []
    with pytest.raises(ModelFault, match=message) as caught:
        embed_texts(ScriptedModel(*replies), {key: key for key in "abcd"}, good.append, sizer=BatchSizer(2))
    assert "test/answering" in caught.value.message
    assert len(good) == len(replies) - 1


NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(NUMBERS, min_size=1, max_size=8))
def test_vectors_come_out_at_unit_length(numbers: list[float]) -> None:
    """Any finite vector is normalised to length one and keeps its direction; zeros stay zeros."""
    got: dict[str, Vector] = {}
    embed_texts(ScriptedModel(each(*numbers)), {"a": "a"}, got.update)
    unit = struct.unpack(f"<{len(numbers)}f", got["a"])
    length = math.hypot(*numbers)
    assert unit == pytest.approx([number / length if length else 0.0 for number in numbers], abs=1e-6)
