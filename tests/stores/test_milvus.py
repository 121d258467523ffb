"""The Milvus store beyond the contract: ownership of rows, content of collections, and words."""

from __future__ import annotations

import random
import re
import string
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.stores.making import ALL, OPENED, PlainAnalyser, TemporaryStore, chunk, fill, search_texts, update, vector
from tests.stores.milvus_server import LiteServer, tenant

from lorelog.core.errors import StoreError, StoreIncompatible
from lorelog.core.options import DEFAULT_COLLECTION, StoreOptions
from lorelog.core.ports import Store
from lorelog.core.query import Filters, Term
from lorelog.stores.milvus import MilvusStore
from lorelog.stores.milvus.schema import FILLER, collection_name, encode_word

pytestmark = pytest.mark.slow


def open_store(
    place: Path, uri: str, *, of: str = "", model: str = "m", version: str = "plain 1", **more: Any
) -> MilvusStore:
    analyser = PlainAnalyser()
    analyser.version = version
    options = StoreOptions(uri, **more)
    store = MilvusStore(place / "index", analyser, options, tenant=of or tenant(), provider="test", model=model)
    OPENED.append(store)
    return store


def ask(store: MilvusStore, call: Any) -> Any:
    return store._remote.call(call)


def names(store: MilvusStore) -> list[str]:
    return sorted(name for name in ask(store, lambda client: client.list_collections()) if store._tenant in name)


def rows(store: MilvusStore, name: str, *fields: str) -> list[dict[str, Any]]:
    return list(ask(store, lambda client: client.query(name, filter="row > 0", output_fields=list(fields))))


# -- whose rows are whose ----------------------------------------------------------------------------------------------


def test_each_project_has_a_collection_with_a_readable_name(tmp_path: Path, milvus_file: str) -> None:
    """Chunks are in the collection of their project, which is named after tenant and project; global ones have their own."""
    store = open_store(tmp_path, milvus_file)
    fill(store, "alpha one", project="/home/me/Otter-Pond/.git")
    fill(store, "alpha two", source="/b.md", project="")

    first, second = names(store)

    assert re.fullmatch(rf"lorelog_{store._tenant}_global_[0-9a-f]{{32}}", first)
    assert re.fullmatch(rf"lorelog_{store._tenant}_otter_pond_[0-9a-f]{{32}}", second)
    assert [row["text"] for row in rows(store, first, "text")] == ["alpha two"]
    assert search_texts(store, "alpha", Filters(projects=("",))) == ["alpha two"]
    assert search_texts(store, "alpha") == ["alpha one", "alpha two"]


def test_one_collection_for_all_projects_by_choice(tmp_path: Path, milvus_file: str) -> None:
    """With per_project off there is one collection, filters still separate projects, and the setting can be changed back."""
    of = tenant()
    store = open_store(tmp_path, milvus_file, of=of, per_project=False)
    fill(store, "alpha one")
    fill(store, "alpha two", source="/b.md", project="/q")

    assert len(names(store)) == 1
    assert search_texts(store, "alpha", Filters(projects=("/q",))) == ["alpha two"]

    again = open_store(tmp_path, milvus_file, of=of)
    assert search_texts(again, "alpha", Filters(projects=("/p",))) == ["alpha one"]
    assert len(names(again)) == 2
    assert again.compare().is_consistent


@pytest.mark.parametrize("changed", [{"collection": "team"}, {"version": "plain 2"}])
def test_another_name_or_analyser_pushes_the_rows_again(
    tmp_path: Path, milvus_file: str, changed: dict[str, str]
) -> None:
    """After a change of store.collection, with which names begin, or of the analyser, rows are pushed again, and the old collection goes."""
    of = tenant()
    fill(open_store(tmp_path, milvus_file, of=of), "alpha one")

    store = open_store(tmp_path, milvus_file, of=of, **changed)

    assert search_texts(store, "alpha", Filters(projects=("/p",))) == ["alpha one"]
    assert [name.partition("_")[0] for name in names(store)] == [changed.get("collection", "lorelog")]
    assert store.compare().is_consistent


def test_no_two_tenants_models_or_widths_share_a_collection() -> None:
    """A collection's name depends on tenant, project, model and dimension, even if they read alike."""
    named = {
        collection_name(DEFAULT_COLLECTION, *parts)
        for parts in [
            ("a", "/p", "x/m", 2),
            ("b", "/p", "x/m", 2),
            ("a", "/q/p", "x/m", 2),
            ("a", None, "x/m", 2),
            ("a", "", "x/m", 2),
            ("a", "/p", "y/m", 2),
            ("a", "/p", "x/m", 3),
            ("A", "/p", "x/m", 2),
        ]
    }

    assert len(named) == 8
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]{0,254}", name) for name in named)


@pytest.mark.slow
def test_two_machines_may_write_one_collection(tmp_path: Path, milvus_server: LiteServer) -> None:
    """Each index finds only its own rows in a shared collection, and a reset of one keeps the other's."""
    of = tenant()
    one = open_store(tmp_path / "one", milvus_server.uri, of=of)
    two = open_store(tmp_path / "two", milvus_server.uri, of=of)
    fill(one, "alpha same", "alpha one")
    fill(two, "alpha same", "alpha two")
    assert names(one) == names(two)
    assert len(names(one)) == 1

    assert search_texts(one, "alpha") == ["alpha one", "alpha same"]
    assert search_texts(two, "alpha") == ["alpha same", "alpha two"]
    one.reset()

    assert search_texts(two, "alpha") == ["alpha same", "alpha two"]
    assert two.compare().is_consistent
    assert search_texts(one, "alpha") == []
    two.reset()
    assert names(two) == []


def test_other_readers_find_what_they_need(tmp_path: Path, milvus_file: str) -> None:
    """A row has the chunk's id, text, lines and headings, also after lines have moved."""
    store = open_store(tmp_path, milvus_file)
    lower = chunk("/a.md", "lower", 9, end_line=11, heading="H", heading_level=2, content="## H\nlower")
    fields = ("chunk_hash", "text", "source", "heading", "heading_level", "start_line", "end_line", "project", "row")

    for line in (9, 12):
        moved = chunk("/a.md", "lower", line, end_line=line + 2, heading="H", heading_level=2, content="## H\nlower")
        with store.writer() as writer:
            writer.put([update("/a.md", [moved], size=line)])
            writer.sweep()
        (known,) = store.chunks_of("/a.md")
        (name,) = names(store)
        (row,) = rows(store, name, *fields)
        row.pop("key")
        assert row == {
            "chunk_hash": known.id,
            "text": lower.content,
            "source": "/a.md",
            "heading": "H",
            "heading_level": 2,
            "start_line": line,
            "end_line": line + 2,
            "project": "/p",
            "row": known.key,
        }


@pytest.mark.slow
def test_another_model_has_other_collections_and_the_old_ones_go(tmp_path: Path, milvus_file: str) -> None:
    """Another model has its own collections, and the old ones are dropped."""
    of = tenant()
    first = open_store(tmp_path, milvus_file, of=of)
    fill(first, "alpha")
    before = names(first)
    other = open_store(tmp_path, milvus_file, of=of, model="other")
    assert search_texts(other, "alpha") == ["alpha"]
    assert other.propose((), vector(1, 5), ALL, 5)[1] == []

    with other.writer(take_over=True) as writer:
        writer.put_vectors({pending.vector_key: vector(1, 2, 3) for pending in other.pending(5)})

    assert len(other.propose((), vector(1, 2, 3), ALL, 5)[1]) == 1
    assert search_texts(other, "alpha") == ["alpha"]
    assert not set(names(other)) & set(before)
    with first.writer(take_over=True):
        pass
    assert len(first.propose((), vector(1, 5), ALL, 5)[1]) == 1
    assert first.compare().is_consistent


def test_a_token_is_written_nowhere(tmp_path: Path, milvus_server: LiteServer) -> None:
    """The token is in no file, error or repr."""
    secret = "tok-3f9a77"
    store = open_store(tmp_path, milvus_server.uri, token=secret)
    fill(store, "alpha")
    store.close()

    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert written
    assert secret.encode() not in written


# -- what is found by which words --------------------------------------------------------------------------------------


@given(st.text(min_size=1), st.text(min_size=1))
def test_every_word_is_one_token_of_its_own(one: str, other: str) -> None:
    """Every word is encoded as letters and digits, uniquely, and never as the filler."""
    assert re.fullmatch(r"[a-z0-9]+", encode_word(one))
    assert (encode_word(one) == encode_word(other)) == (one == other)
    assert encode_word(one) != FILLER


def test_words_of_any_script_are_found(tmp_path: Path, milvus_file: str) -> None:
    """Words that Milvus' analyser would split, join or drop are found."""
    words = ["水獭", "14:30", "2026-03-05", "c++", "zebra", "🦦", "naïve", "a_b", "x" * 200, "é́", "--flag"]
    store = open_store(tmp_path, milvus_file)
    with store.writer() as writer:
        writer.put([update("/a.md", [f"{word} n{number}" for number, word in enumerate(words)])])

    for number, word in enumerate(words):
        assert search_texts(store, word) == [f"{word} n{number}"]
    assert search_texts(store, "獭") == search_texts(store, "30") == search_texts(store, "b") == []


def test_a_text_too_long_for_a_field_is_found_by_all_its_words(tmp_path: Path, milvus_file: str) -> None:
    """A chunk longer than a field is stored, and found by its first and last word."""
    store = open_store(tmp_path, milvus_file)
    text = " ".join(["first", *["again"] * 20_000, "水last"])
    fill(store, text)

    assert search_texts(store, "first") == search_texts(store, "水last") == [text]


def test_what_is_too_long_for_a_field_is_filtered_by_all_the_same(tmp_path: Path, milvus_file: str) -> None:
    """Long types and tags are filtered exactly, even if only their ends differ."""
    store = open_store(tmp_path, milvus_file)
    long = {end: "é" * 3000 + end for end in ("a", "b")}
    source = f"/{'d' * 200}/" * 20 + "é😀.md"
    fill(
        store,
        *(
            chunk(source, f"word {end}", line, type=text, tags=(text, "x"), heading="😀" * 6000)
            for line, (end, text) in enumerate(long.items(), start=1)
        ),
        source=source,
    )

    for end, text in long.items():
        assert search_texts(store, "word", Filters(types=(text,))) == [f"word {end}"]
        assert search_texts(store, "word", Filters(tags=("x", text))) == [f"word {end}"]
    assert search_texts(store, "word", Filters(types=(long["a"][:-1],))) == []
    assert len(search_texts(store, "word", Filters(source_prefix=source.rpartition("/")[0]))) == 2


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000))
def test_words_find_what_every_other_store_finds(tmp_path: Path, milvus_file: str, seed: int) -> None:
    """After any changes the chunks with any of the terms are found, and no others; their order is that of Milvus' BM25."""
    luck = random.Random(seed)
    store = open_store(tmp_path / str(random.Random().random()), milvus_file)
    reference = TemporaryStore(PlainAnalyser(), provider="test", model="m")
    words = [f"w{n}" for n in range(12)]
    for size in range(1, 5):
        source, project = f"/{luck.randrange(3)}.md", luck.choice(["/p", "/q"])
        texts = [" ".join(luck.choices(words, k=luck.choice([3, 20, 60]))) for _ in range(luck.randrange(4))]
        for target in (store, reference):
            with target.writer() as writer:
                writer.put([update(source, texts, project=project, size=size)])
    terms = [Term(word, weight) for word, weight in zip(luck.sample(words, 3), (1.0, 0.5, 1.0), strict=True)]

    def found(searched: Store) -> list[str]:
        chunks = searched.fetch([hit.key for hit in searched.propose(terms, None, ALL, 50)[0]])
        return sorted(stored.chunk.text for stored in chunks.values())

    with store.writer() as writer:
        writer.sweep()
    assert found(store) == found(reference)
    scores = [hit.score for hit in store.propose(terms, None, ALL, 50)[0]]
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)


def test_both_lanes_are_under_way_at_once(tmp_path: Path, milvus_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search sends all requests at once and waits for one round trip."""
    store = open_store(tmp_path, milvus_file)
    fill(store, "alpha one")
    fill(store, "alpha two", source="/b.md", project="/q")
    from pymilvus import MilvusClient

    both, search = threading.Barrier(4), MilvusClient.search

    def wait_for_the_others(self: MilvusClient, *args: Any, **more: Any) -> Any:
        both.wait(30)
        return search(self, *args, **more)

    monkeypatch.setattr(MilvusClient, "search", wait_for_the_others)

    words, near = store.propose([Term("alpha")], vector(1, 9), ALL, 10)

    assert len(words) == len(near) == 2


# -- filters -----------------------------------------------------------------------------------------------------------

AWKWARD = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30) | st.text(
    alphabet=string.punctuation + " \t\n\r\\\"'%_ab", max_size=30
)


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_texts=st.lists(AWKWARD, min_size=1, max_size=4, unique=True), asked=AWKWARD)
def test_no_character_in_a_filter_is_special(shelf: MilvusStore, given_texts: list[str], asked: str) -> None:
    """Filters on any text admit exactly the rows that have it, by equality, membership and prefix."""
    store = shelf
    with store.writer() as writer:
        kept = [
            chunk("/x", "word", line, type=text, tags=(text, "other"), end_line=line)
            for line, text in enumerate(given_texts, start=1)
        ]
        sources = {f"/s/{text}{more}" for text in given_texts for more in ("", "/in", "in")}
        writer.remove([document.source for document in store.documents()])
        writer.put(
            [update("/x", kept), *(update(source, [chunk(source, "word", type="a place")]) for source in sources)]
        )

    for text in (*given_texts, asked):
        wanted = sorted(given_text for given_text in given_texts if given_text == text)
        for filters in (
            Filters(types=(text,)),
            Filters(tags=(text, "other")),
            Filters(types=(text, text), tags=(text,)),
        ):
            hits = store.fetch([hit.key for hit in store.propose([Term("word")], None, filters, 10)[0]])
            assert sorted(hit.chunk.type for hit in hits.values()) == wanted
        prefix = "/s/" + text
        below = sorted(source for source in sources if source == prefix or source.startswith(prefix.rstrip("/") + "/"))
        hits = store.fetch(
            [hit.key for hit in store.propose([Term("word")], None, Filters(source_prefix=prefix), 50)[0]]
        )
        assert sorted(hit.chunk.source for hit in hits.values()) == below


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, milvus_file: str) -> Iterator[MilvusStore]:
    """A store shared by many examples."""
    place = tmp_path_factory.mktemp("shelf")
    store = MilvusStore(
        place / "index", PlainAnalyser(), StoreOptions(milvus_file), tenant=tenant(), provider="test", model="m"
    )
    yield store
    store.close()


# -- what is kept here -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["*/current.json", "*"])
def test_lost_local_files_are_rebuilt(tmp_path: Path, milvus_file: str, lost: str) -> None:
    """Without its local files the store pushes the catalog again, and Milvus holds each chunk once."""
    of = tenant()
    store = open_store(tmp_path, milvus_file, of=of)
    fill(store, "alpha one", "beta two")
    store.close()
    for path in (tmp_path / "index" / "milvus").glob(lost):
        subprocess.run(["rm", "-r", str(path)], check=True)

    again = open_store(tmp_path, milvus_file, of=of)

    assert search_texts(again, "alpha") == ["alpha one"]
    assert len(again.propose((), vector(1, 9), ALL, 10)[1]) == 2
    assert again.compare().is_consistent


# -- what is not there -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_file_serves_one_process_at_a_time(tmp_path: Path) -> None:
    """A second process is told that the Milvus Lite file is busy; after the first closes it, it can be opened."""
    of, uri = tenant(), str(tmp_path / "lite.db")
    store = open_store(tmp_path, uri, of=of)
    fill(store, "alpha")
    script = (
        f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "from pathlib import Path\n"
        "from tests.stores.test_milvus import open_store, search_texts\n"
        "from lorelog.core.errors import StoreBusy\n"
        f"store = open_store(Path({str(tmp_path)!r}), {uri!r}, of={of!r}, retry_s=0.2)\n"
        "try:\n"
        "    print(search_texts(store, 'alpha'))\n"
        "except StoreBusy as error:\n"
        "    print('busy:', error.message, '|', error.hint)\n"
        "store.close()\n"
    )

    def elsewhere() -> str:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.stdout

    told = elsewhere()
    store.close()

    assert "busy:" in told
    assert "daemon" in told
    assert elsewhere() == "['alpha']\n"


def test_a_file_of_another_make_is_not_touched(tmp_path: Path) -> None:
    """A path that is not a Milvus Lite 3 folder is rejected with a hint."""
    path = tmp_path / "old.db"
    path.write_bytes(b"SQLite format 3\0")

    with pytest.raises(StoreIncompatible, match="Milvus Lite 2") as caught:
        fill(open_store(tmp_path, str(path)), "alpha")

    assert "move it away" in caught.value.hint
    assert path.read_bytes() == b"SQLite format 3\0"


def test_without_the_package_one_line_says_what_to_install(
    tmp_path: Path, milvus_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without pymilvus the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "pymilvus", None)

    with pytest.raises(StoreError) as caught, open_store(tmp_path, milvus_file).writer() as writer:
        writer.put([update("/a.md", ["alpha"])])

    assert "lorelog[milvus]" in caught.value.hint


@pytest.mark.slow
def test_a_project_cannot_slip_in_an_environment(tmp_path: Path) -> None:
    """A `.env` file in the current directory, which Milvus' client would read, has no effect."""
    (tmp_path / ".env").write_text("SLIPPED_IN=yes\nMILVUS_URI=http://elsewhere\n", "utf-8")
    script = (
        f"import os, sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"
        "from pathlib import Path\n"
        "from tests.stores.test_milvus import open_store, fill\n"
        f"store = open_store(Path({str(tmp_path)!r}), {str(tmp_path / 'lite.db')!r})\n"
        "fill(store, 'alpha')\n"
        "store.close()\n"
        "print(os.environ.get('SLIPPED_IN'), os.environ.get('PYTHON_DOTENV_DISABLED'))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)

    assert done.stdout == "None None\n", done.stderr


def test_a_store_that_is_not_asked_opens_nothing(tmp_path: Path) -> None:
    """Creating a store, and reading an index that does not exist, connects to nothing and creates nothing."""
    store = open_store(tmp_path, "http://127.0.0.1:1", retry_s=0.0)

    assert search_texts(store, "alpha") == []
    assert store.documents() == []
    store.reset()
    assert list(tmp_path.iterdir()) == []
