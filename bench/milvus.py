"""The cost of Milvus as the search backend, compared with local files and Milvus' own hybrid search.

One made-up corpus (words by Zipf's law, vectors in clusters) goes into each store through the same port: inserted by
words, then given its vectors, then asked. `in turn` asks one lane after the other; `together` is what a search does,
both lanes in one call of the port; `hybrid_search` is Milvus fusing by itself, over the same collection and with the
same limit. The server is asked a second time from afar (each answer comes a round trip of `--away` ms later), and by a
second machine that has nothing itself and finds what the first one shares. Times are of this machine, in one run, one
store after the other.

    python -m bench.milvus [--size 5000] [--dimension 384] [--questions 50] [--away 20] [--uri http://host:19530]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lorelog.core.document import Chunk, Document, FileStamp
from lorelog.core.options import StoreOptions
from lorelog.core.ports import DocumentUpdate, Store, Vector
from lorelog.core.query import Filters, Term
from lorelog.stores.embedded import EmbeddedStore
from lorelog.stores.milvus import MilvusStore
from lorelog.stores.milvus.schema import encode_word, owned_by

LIMIT = 200
_PROJECT = "/bench"
_CHUNKS_A_DOCUMENT = 20
_VECTORS_A_CALL = 256


class Words:
    """Splits at spaces."""

    version = "bench 1"

    def words(self, text: str) -> list[str]:
        return text.split()


@dataclass(slots=True)
class Corpus:
    """Documents, their vectors by key, and queries."""

    documents: list[DocumentUpdate]
    vectors: dict[str, Vector]
    questions: list[tuple[list[Term], Vector]]
    text_bytes: int = 0


@dataclass(slots=True)
class Result:
    """Times of one store."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    bytes_here: int = 0
    bytes_there: int = 0


def make_corpus(size: int, dimension: int, questions: int, seed: int = 7) -> Corpus:
    """Return a corpus like notes: 80 words per chunk, 30,000 different words."""
    luck = random.Random(seed)
    numbers = np.random.default_rng(seed)
    words = [f"w{number}" for number in range(30_000)]
    weights = np.cumsum(1.0 / np.arange(1, len(words) + 1)).tolist()
    centres = numbers.normal(size=(64, dimension))

    def vector() -> Vector:
        made = centres[luck.randrange(64)] + 0.6 * numbers.normal(size=dimension)
        return bytes((made / np.linalg.norm(made)).astype("<f4").tobytes())

    documents, vectors, text_bytes = [], {}, 0
    for first in range(0, size, _CHUNKS_A_DOCUMENT):
        source = f"/bench/{first}.md"
        chunks = []
        for line in range(min(_CHUNKS_A_DOCUMENT, size - first)):
            text = " ".join(luck.choices(words, cum_weights=weights, k=luck.randint(40, 120)))
            text_bytes += len(text)
            one = Chunk(source, "", 0, (), line + 1, line + 1, text, text, date="2026-03-02")
            vectors[one.vector_key] = vector()
            chunks.append(one)
        document = Document(source, "/bench", _PROJECT, FileStamp(1, 1, 1), "h", "", "2026-03-02", "2026-03-02")
        documents.append(DocumentUpdate(document, tuple(chunks)))
    asked = [
        ([Term(word) for word in luck.choices(words, cum_weights=weights, k=6)], vector()) for _ in range(questions)
    ]
    return Corpus(documents, vectors, asked, text_bytes)


def fill(store: Store, corpus: Corpus, result: Result) -> None:
    """Insert lexically and then add vectors, as an index run does."""
    start = time.perf_counter()
    for first in range(0, len(corpus.documents), 25):
        with store.writer() as writer:
            writer.put(corpus.documents[first : first + 25])
    result.seconds["words"] = time.perf_counter() - start
    start = time.perf_counter()
    keys = list(corpus.vectors)
    with store.writer() as writer:
        for first in range(0, len(keys), _VECTORS_A_CALL):
            part = keys[first : first + _VECTORS_A_CALL]
            writer.put_vectors({key: corpus.vectors[key] for key in part})
        writer.sweep()
    result.seconds["vectors"] = time.perf_counter() - start


def ask(store: Store, corpus: Corpus, result: Result) -> None:
    """Time each lane alone, both in sequence, and both together."""
    admitted = Filters(projects=(_PROJECT,))

    def in_turn(terms: list[Term], vector: Vector) -> None:
        store.propose(terms, None, admitted, LIMIT)[0]
        store.propose((), vector, admitted, LIMIT)[1]

    ways: dict[str, Callable[[list[Term], Vector], object]] = {
        "lexical": lambda terms, _: store.propose(terms, None, admitted, LIMIT)[0],
        "dense": lambda _, vector: store.propose((), vector, admitted, LIMIT)[1],
        "in turn": in_turn,
        "together": lambda terms, vector: store.propose(terms, vector, admitted, LIMIT),
    }
    if isinstance(store, MilvusStore) and store.coverage(Filters()).chunks:
        ways["hybrid_search"] = hybrid(store)
    for name, way in ways.items():
        result.milliseconds[name] = median_ms(way, corpus.questions)


def hybrid(store: MilvusStore) -> Callable[[list[Term], Vector], object]:
    """Return Milvus' own hybrid search over the store's collection."""
    from pymilvus import AnnSearchRequest, RRFRanker

    lanes = store._lanes_of(store._space)[0]  # noqa: SLF001
    state, home = lanes._state(), lanes._files.identity()  # noqa: SLF001
    assert state is not None
    assert home is not None
    name = state.collections[_PROJECT]

    def search(terms: list[Term], vector: Vector) -> object:
        question = " ".join(encode_word(term.text) for term in terms)
        near = np.frombuffer(vector, dtype="<f4").tolist()
        admitted = owned_by(home.id)
        asked = [
            AnnSearchRequest([question], "sparse_vector", {}, LIMIT, expr=admitted),
            AnnSearchRequest([near], "dense_vector", {}, LIMIT, expr=f"{admitted} and has_vector == true"),
        ]
        return store._remote.call(  # noqa: SLF001
            lambda client: client.hybrid_search(name, asked, RRFRanker(60), limit=LIMIT, output_fields=["row"])
        )

    return search


def median_ms(way: Callable[[list[Term], Vector], object], questions: Sequence[tuple[list[Term], Vector]]) -> float:
    """Return the median time, without the first call."""
    way(*questions[0])
    taken = []
    for terms, vector in questions:
        start = time.perf_counter()
        way(terms, vector)
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def bytes_below(folder: Path) -> int:
    """Return the size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def start_server(folder: Path, port: int = 0) -> tuple[subprocess.Popen[bytes], str]:
    """Start `milvus-lite server` for a folder, at a port or a free one, and return it with its address."""
    import socket

    if not port:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
    command = [str(Path(sys.executable).with_name("milvus-lite")), "server", "--data-dir", str(folder)]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
        except OSError:
            time.sleep(0.1)
        else:
            break
    return server, f"http://127.0.0.1:{port}"


@contextmanager
def afar(uri: str, away_ms: float) -> Iterator[str]:
    """Yield an address of the same server with an added round trip in milliseconds."""
    loop = asyncio.new_event_loop()
    host, port = uri.removeprefix("http://").split(":")

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            loop.call_later(away_ms / 2000, writer.write, data)
        loop.call_later(away_ms / 2000, writer.close)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):  # when all is measured
            there, back = await asyncio.open_connection(host, int(port))
            await asyncio.gather(carry(reader, back), carry(there, writer), return_exceptions=True)

    server = loop.run_until_complete(asyncio.start_server(accept, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()


def measure(name: str, store: Store, folder: Path, there: Path | None, corpus: Corpus) -> Result:
    """Fill and query one store."""
    result = Result(name)
    fill(store, corpus, result)
    ask(store, corpus, result)
    store.close()
    result.bytes_here = bytes_below(folder)
    result.bytes_there = bytes_below(there) if there else 0
    return result


def report(results: Sequence[Result], corpus: Corpus, size: int, dimension: int) -> None:
    """Print the measurements."""
    text = corpus.text_bytes / size
    print(
        f"{size:,} chunks of {text:,.0f} bytes, {dimension} dimensions, {len(corpus.questions)} questions, {LIMIT} candidates"
    )
    ways = ("lexical", "dense", "in turn", "together", "hybrid_search")
    columns = ["words s", "vectors s", *ways, "B here", "B there"]
    print(f"{'':24}" + "".join(f"{column:>14}" for column in columns))
    for result in results:
        cells: list[Any] = [
            f"{result.seconds[name]:.1f}" if name in result.seconds else "-" for name in ("words", "vectors")
        ]
        cells += [f"{result.milliseconds[name]:.1f} ms" if name in result.milliseconds else "-" for name in ways]
        cells += [f"{many / size:,.0f}" if many else "-" for many in (result.bytes_here, result.bytes_there)]
        print(f"{result.name:24}" + "".join(f"{cell:>14}" for cell in cells))
    print("ms are medians of an answer; B are bytes on disk a chunk, here and in Milvus' folder")


def main() -> None:
    """Measure every store in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=5000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument(
        "--away", type=float, default=20.0, help="milliseconds of a round trip to a server that is far away"
    )
    parser.add_argument("--uri", default="", help="a Milvus server, measured too")
    args = parser.parse_args()
    corpus = make_corpus(args.size, args.dimension, args.questions)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="lorelog-bench-") as place:
        home = Path(place)
        embedded = EmbeddedStore(home / "embedded", Words(), provider="b", model="m")
        results.append(measure("embedded", embedded, home / "embedded", None, corpus))
        lite = opened(home / "lite", str(home / "lite.db"))
        results.append(measure("milvus lite", lite, home / "lite", home / "lite.db", corpus))
        process, uri = start_server(home / "server")
        try:
            results += measure_server("lite server", uri, home, home / "server", corpus, args.away)
        finally:
            process.kill()
            process.wait()
        if args.uri:
            results += measure_server("milvus", args.uri, home / "real", None, corpus, args.away)
    report(results, corpus, args.size, args.dimension)


def opened(folder: Path, uri: str, tenant: str = "", *, shared: bool = False) -> MilvusStore:
    """Return a store whose project has the same name on all machines."""
    tenant = tenant or f"bench{time.time_ns()}"
    options = StoreOptions(uri, shared=shared)
    return MilvusStore(folder, Words(), options, tenant=tenant, provider="b", model="m", name_of=lambda _: "bench")


def measure_server(
    name: str, uri: str, home: Path, there: Path | None, corpus: Corpus, away: float
) -> Iterator[Result]:
    """Yield stores on a server: nearby, of a machine that reads a shared one, and remote."""
    tenant = f"bench{time.time_ns()}"
    yield measure(name, opened(home / "writer", uri, tenant, shared=True), home / "writer", there, corpus)
    reader = opened(home / "reader", uri, tenant, shared=True)
    theirs = Result(f"{name}, of others")
    ask(reader, corpus, theirs)
    reader.close()
    yield theirs
    with afar(uri, away) as far:
        store = opened(home / "far", far)
        yield measure(f"{name}, {away:.0f} ms away", store, home / "far", None, corpus)
        store.reset()
        store.close()
    writer = opened(home / "writer", uri, tenant, shared=True)
    writer.reset()
    writer.close()


if __name__ == "__main__":
    main()
