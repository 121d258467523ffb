"""What keeping words and vectors in Milvus costs, beside the embedded store and beside Milvus' own hybrid search.

One made-up corpus (words by Zipf's law, vectors in clusters) goes into each store through the same port: inserted by
words, then given its vectors, then asked. `both lanes` is what our ranking asks for; `hybrid_search` is Milvus fusing by
itself, over the same collection and with the same limit. Times are of this machine, in one run, one store after the other.

    python -m bench.milvus [--size 5000] [--dimension 384] [--questions 50] [--uri http://host:19530]
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recollect.core.document import Chunk, Document, Stamp
from recollect.core.options import StoreOptions
from recollect.core.ports import DocumentUpdate, Store, Vector
from recollect.core.query import Filters, Term
from recollect.stores.embedded import EmbeddedStore
from recollect.stores.milvus import MilvusStore
from recollect.stores.milvus.filters import expression
from recollect.stores.milvus.tokens import token

LIMIT = 200
_PROJECT = "/bench"
_CHUNKS_A_DOCUMENT = 20
_VECTORS_A_CALL = 256


class Words:
    """Splits at blanks."""

    version = "bench 1"

    def words(self, text: str) -> list[str]:
        return text.split()


@dataclass(slots=True)
class Corpus:
    """Documents, their vectors by key, and questions."""

    documents: list[DocumentUpdate]
    vectors: dict[str, Vector]
    questions: list[tuple[list[Term], Vector]]
    text_bytes: int = 0


@dataclass(slots=True)
class Result:
    """What one store took."""

    name: str
    seconds: dict[str, float] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    bytes_here: int = 0
    bytes_there: int = 0


def make_corpus(size: int, dimension: int, questions: int, seed: int = 7) -> Corpus:
    """Return a corpus that looks like notes: 80 words a chunk, 30,000 different ones."""
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
        document = Document(source, "/bench", _PROJECT, Stamp(1, 1, 1), "h", "", "2026-03-02", "2026-03-02")
        documents.append(DocumentUpdate(document, tuple(chunks)))
    asked = [
        ([Term(word) for word in luck.choices(words, cum_weights=weights, k=6)], vector()) for _ in range(questions)
    ]
    return Corpus(documents, vectors, asked, text_bytes)


def fill(store: Store, corpus: Corpus, result: Result) -> None:
    """Insert by words, then give vectors, as an index run does."""
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
    """Time each lane alone, both after each other and both at once."""
    admitted = Filters(projects=(_PROJECT,))
    pool = ThreadPoolExecutor(2)

    def both_at_once(terms: list[Term], vector: Vector) -> None:
        words = pool.submit(store.lexical, terms, admitted, LIMIT)
        store.dense(vector, admitted, LIMIT)
        words.result()

    def both(terms: list[Term], vector: Vector) -> None:
        store.lexical(terms, admitted, LIMIT)
        store.dense(vector, admitted, LIMIT)

    ways: dict[str, Callable[[list[Term], Vector], object]] = {
        "lexical": lambda terms, _: store.lexical(terms, admitted, LIMIT),
        "dense": lambda _, vector: store.dense(vector, admitted, LIMIT),
        "both lanes": both,
        "both at once": both_at_once,
    }
    if isinstance(store, MilvusStore):
        ways["hybrid_search"] = hybrid(store)
    for name, way in ways.items():
        result.milliseconds[name] = median_ms(way, corpus.questions)
    pool.shutdown()


def hybrid(store: MilvusStore) -> Callable[[list[Term], Vector], object]:
    """Return Milvus' own hybrid search over the store's collection."""
    from pymilvus import AnnSearchRequest, RRFRanker

    lanes = store._lanes_of(store._space)[0]  # noqa: SLF001
    state, home = lanes._state(), lanes._places.home()  # noqa: SLF001
    assert state is not None
    assert home is not None
    name = state.collections[_PROJECT]

    def search(terms: list[Term], vector: Vector) -> object:
        question = " ".join(token(term.text) for term in terms)
        near = np.frombuffer(vector, dtype="<f4").tolist()
        admitted = expression(Filters(), home.id)
        asked = [
            AnnSearchRequest([question], "sparse_vector", {}, LIMIT, expr=admitted),
            AnnSearchRequest([near], "dense_vector", {}, LIMIT, expr=f"{admitted} and has_vector == true"),
        ]
        return store._remote.ask(  # noqa: SLF001
            lambda client: client.hybrid_search(name, asked, RRFRanker(60), limit=LIMIT, output_fields=["row"])
        )

    return search


def median_ms(way: Callable[[list[Term], Vector], object], questions: Sequence[tuple[list[Term], Vector]]) -> float:
    """Return the median time of an answer, after a first one that does not count."""
    way(*questions[0])
    taken = []
    for terms, vector in questions:
        start = time.perf_counter()
        way(terms, vector)
        taken.append(1000 * (time.perf_counter() - start))
    return statistics.median(taken)


def bytes_below(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def start_server(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start `milvus-lite server` over a folder and return it with its address."""
    import socket

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


def measure(name: str, store: Store, folder: Path, there: Path | None, corpus: Corpus) -> Result:
    """Fill and ask one store."""
    result = Result(name)
    fill(store, corpus, result)
    ask(store, corpus, result)
    store.close()
    result.bytes_here = bytes_below(folder)
    result.bytes_there = bytes_below(there) if there else 0
    return result


def report(results: Sequence[Result], corpus: Corpus, size: int, dimension: int) -> None:
    """Print what was measured."""
    text = corpus.text_bytes / size
    print(
        f"{size:,} chunks of {text:,.0f} bytes, {dimension} dimensions, {len(corpus.questions)} questions, {LIMIT} candidates"
    )
    columns = [
        "words s",
        "vectors s",
        "lexical",
        "dense",
        "both lanes",
        "both at once",
        "hybrid_search",
        "B here",
        "B there",
    ]
    print(f"{'':16}" + "".join(f"{column:>14}" for column in columns))
    for one in results:
        cells: list[Any] = [f"{one.seconds['words']:.1f}", f"{one.seconds['vectors']:.1f}"]
        cells += [
            f"{one.milliseconds[name]:.1f} ms" if name in one.milliseconds else "-"
            for name in ("lexical", "dense", "both lanes", "both at once", "hybrid_search")
        ]
        cells += [f"{one.bytes_here / size:,.0f}", f"{one.bytes_there / size:,.0f}" if one.bytes_there else "-"]
        print(f"{one.name:16}" + "".join(f"{cell:>14}" for cell in cells))
    print("ms are medians of an answer; B are bytes on disk a chunk, here and in Milvus' folder")


def main() -> None:
    """Measure every store, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=5000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--uri", default="", help="a Milvus server, measured too")
    args = parser.parse_args()
    corpus = make_corpus(args.size, args.dimension, args.questions)
    results = []
    with tempfile.TemporaryDirectory(prefix="recollect-bench-") as place:
        home = Path(place)

        def milvus(name: str, uri: str, there: Path | None) -> Result:
            folder = home / name.replace(" ", "-")
            options = StoreOptions(uri)
            store = MilvusStore(folder, Words(), options, tenant=f"bench{time.time_ns()}", provider="b", model="m")
            result = measure(name, store, folder, there, corpus)
            if there is None:
                store.reset()
                store.close()
            return result

        embedded = EmbeddedStore(home / "embedded", Words(), provider="b", model="m")
        results.append(measure("embedded", embedded, home / "embedded", None, corpus))
        results.append(milvus("milvus lite", str(home / "lite.db"), home / "lite.db"))
        server, uri = start_server(home / "server")
        try:
            results.append(milvus("lite server", uri, home / "server"))
        finally:
            server.kill()
            server.wait()
        if args.uri:
            results.append(milvus("milvus", args.uri, None))
    report(results, corpus, args.size, args.dimension)


if __name__ == "__main__":
    main()
