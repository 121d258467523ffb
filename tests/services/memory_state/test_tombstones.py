"""What a section is deleted as does not depend on how it is cut, where its file lies, or on white space."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lorelog.core.document import Document, FileStamp
from lorelog.core.options import ChunkOptions
from lorelog.core.ports import DocumentUpdate
from lorelog.ingest.markdown import chunk_markdown
from lorelog.services.memory_state.tombstones import deletion_keys, is_chunked_with, omitted_keys, remove_deleted

PARAGRAPHS = st.lists(st.text("ab \n", min_size=1, max_size=60).filter(str.strip), min_size=1, max_size=6)
TEXTS = st.lists(PARAGRAPHS, min_size=1, max_size=4).map(
    lambda sections: "".join(f"# S{n % 2}\n\n" + "\n\n".join(body) + "\n\n" for n, body in enumerate(sections))
)


def keys(text: str, source: str = "/p/a.md", size: int = 1500, overlap: int = 2) -> list[str]:
    """The keys of a text's sections, each once for each time it stands there."""
    chunks = chunk_markdown(text, source, ChunkOptions(size, overlap)).chunks
    return [key for key, chunk in zip(deletion_keys(chunks, "/p"), chunks, strict=True) if chunk.piece == 0]


@given(TEXTS, st.integers(80, 200), st.integers(0, 3))
def test_a_section_keeps_its_key_however_it_is_cut(text: str, size: int, overlap: int) -> None:
    """Smaller pieces, with more or less overlap, in another file, give the same keys."""
    assert keys(text, "/p/b/c.md", size, overlap) == keys(text)


def test_another_project_another_section() -> None:
    """What is deleted in one project is not in another."""
    chunks = chunk_markdown("# A\n\ntext\n", "/p/a.md", ChunkOptions()).chunks

    assert deletion_keys(chunks, "/p") != deletion_keys(chunks, "/q")


@given(TEXTS, st.data())
def test_a_document_notes_what_was_left_out_of_it(text: str, data: st.DataObject) -> None:
    """What is deleted, and nothing else, is missing; the document is to be cut anew once any of that is deleted no more."""
    chunks = chunk_markdown(text, "/p/a.md", ChunkOptions(100)).chunks
    document = Document("/p/a.md", "/p", "/p", FileStamp(1, 1, 1), "", recipe="r")
    known = deletion_keys(chunks, "/p")
    deleted = frozenset(data.draw(st.sets(st.sampled_from(known))))

    update = remove_deleted(DocumentUpdate(document, chunks), deleted)

    assert list(update.chunks) == [item for item, key in zip(chunks, known, strict=True) if key not in deleted]
    assert omitted_keys(update.document) == deleted
    assert is_chunked_with(update.document, "r", deleted)
    assert not is_chunked_with(update.document, "s", deleted)
    for key in deleted:
        assert not is_chunked_with(update.document, "r", deleted - {key})
