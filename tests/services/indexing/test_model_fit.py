"""How well an encoder knows an index, as the index itself says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.stores.making import PlainAnalyser, TemporaryStore, update, vector

from lorelog.core.errors import ModelUnavailable
from lorelog.core.ports import EmbeddedTexts, Vector
from lorelog.retrieval.fusion import LaneEvidence, weigh_lanes
from lorelog.services.indexing.model_fit import MAX_DEVIATION, MIN_CHUNKS, REMARK_NAME, model_fit, refresh_model_fit

SUBJECTS = 60
CHUNKS = 240


def _subject(text: str) -> int:
    return int(text.split("subject")[1].split(maxsplit=1)[0]) % SUBJECTS


class Reader:
    """An encoder that knows each subject by a direction of its own, or, when blind, sees all texts nearly alike."""

    provider = "reader"
    model = "reader-60"

    def __init__(self, *, blind: bool = False, fails: bool = False) -> None:
        self.blind = blind
        self.fails = fails
        self.asked = 0

    def see(self, text: str) -> Vector:
        numbers = [1.0] * SUBJECTS
        place = (len(text) * 7 + sum(map(ord, text))) % SUBJECTS if self.blind else _subject(text)
        numbers[place] = 3.0 if self.blind else 30.0
        return vector(*numbers)

    def embed_documents(self, texts: Sequence[str]) -> EmbeddedTexts:
        return EmbeddedTexts(tuple(map(self.see, texts)))

    def embed_query(self, text: str) -> Vector:
        self.asked += 1
        if self.fails:
            raise ModelUnavailable("no model")
        return self.see(text)

    def close(self) -> None:
        pass


def filled(reader: Reader, chunks: int = CHUNKS) -> TemporaryStore:
    store = TemporaryStore(PlainAnalyser(), provider=reader.provider, model=reader.model)
    grow(store, reader, 0, chunks)
    return store


def grow(store: TemporaryStore, reader: Reader, first: int, last: int) -> None:
    texts = [f"Begin {n}. This is on subject{n} and nothing else. End {n}." for n in range(first, last)]
    given = update(f"/{first}.md", texts)
    with store.writer() as writer:
        writer.put([given])
        writer.put_vectors({chunk.vector_key: reader.see(chunk.embedded_text) for chunk in given.chunks})


def test_an_encoder_that_knows_the_corpus_is_trusted_more() -> None:
    """A corpus whose sentences stand out is noted as known, one whose sentences do not as unknown; the weight follows."""
    seeing, blind = Reader(), Reader(blind=True)
    clear, dim = filled(seeing), filled(blind)

    refresh_model_fit(clear, seeing)
    refresh_model_fit(dim, blind)

    assert model_fit(clear) > 0 > model_fit(dim)
    asked = "what was it about"
    trusted = weigh_lanes(asked, LaneEvidence(0.4, 3, 1.2, known=model_fit(clear))).dense
    assert (
        trusted
        > weigh_lanes(asked, LaneEvidence(0.4, 3, 1.2)).dense
        > weigh_lanes(asked, LaneEvidence(0.4, 3, 1.2, known=model_fit(dim))).dense
    )


def test_a_small_index_is_not_probed() -> None:
    """Where too little is there to tell, the model is not asked and nothing is noted."""
    reader = Reader()
    store = filled(reader, MIN_CHUNKS - 1)

    refresh_model_fit(store, reader)

    assert (reader.asked, store.get_note(REMARK_NAME), model_fit(store)) == (0, "", 0.0)


def test_an_index_is_probed_again_when_it_has_grown() -> None:
    """The model is asked again after the index has grown by a quarter, and not before."""
    reader = Reader()
    store = filled(reader)
    refresh_model_fit(store, reader)
    first = reader.asked
    refresh_model_fit(store, reader)
    assert reader.asked == first > 0

    grow(store, reader, CHUNKS, CHUNKS + 20)
    refresh_model_fit(store, reader)
    assert reader.asked == first
    grow(store, reader, CHUNKS + 20, CHUNKS + 100)
    refresh_model_fit(store, reader)
    assert reader.asked > first


def test_a_model_that_fails_changes_nothing() -> None:
    """A probe that cannot be made is no failure, and leaves what was noted before."""
    store = filled(Reader())
    refresh_model_fit(store, Reader())
    before = store.get_note(REMARK_NAME)
    grow(store, Reader(), CHUNKS, 2 * CHUNKS)

    refresh_model_fit(store, Reader(fails=True))

    assert store.get_note(REMARK_NAME) == before


@pytest.mark.parametrize("noted", ["", "nonsense", "nan 200", "inf 3", "4.0"])
def test_any_feedback_gives_a_bounded_weight(noted: str) -> None:
    """Whatever is noted, what a search makes of it is a number within bounds."""
    store = filled(Reader(), 3)
    with store.writer() as writer:
        writer.set_note(REMARK_NAME, noted)

    assert -MAX_DEVIATION <= model_fit(store) <= MAX_DEVIATION
