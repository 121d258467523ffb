"""Several machines on one Milvus: writes and searches at once, the loss of the server in the middle of a write, and catching up.

Each machine is a store with a catalog of its own; all share the collections of one tenant. They write their parts of one made-up corpus one after
the other and, in another tenant, at once; then they search at once. Then the server is killed with SIGKILL while a machine writes a further part: what the
writer is told, what a search says meanwhile, and, after a restart, how long the next write takes to catch up, and how many rows differ
from the catalogs. The server is `milvus-lite server` on this machine, which computes one query at a time: the figures say what lorelog does, not what
a cluster can. Exits with 1 if a row is missing, surplus or unlike after catching up.

    python -m bench.milvus_team [--machines 4] [--size 2000] [--dimension 384] [--questions 20]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from bench.milvus import LIMIT, Corpus, Result, fill, make_corpus, opened, start_server

from lorelog.core.errors import LorelogError
from lorelog.core.query import Filters
from lorelog.stores.milvus import MilvusStore

_DOWN_S = 3.0


def part_of(corpus: Corpus, number: int, parts: int) -> Corpus:
    """Return every n-th document with its vectors."""
    documents = corpus.documents[number::parts]
    keys = {chunk.vector_key for update in documents for chunk in update.chunks}
    return Corpus(documents, {key: corpus.vectors[key] for key in keys}, corpus.questions)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def write_all(stores: Sequence[MilvusStore], parts: Sequence[Corpus], workers: int) -> float:
    """Return the seconds in which all stores wrote their parts, so many at once."""
    with ThreadPoolExecutor(workers) as pool:
        results = [Result("") for _ in stores]
        return timed(lambda: list(pool.map(fill, stores, parts, results)))


def ask_all(stores: Sequence[MilvusStore], corpus: Corpus) -> tuple[float, float, float]:
    """Return questions per second of all machines at once, and the median and the 95th percentile of an answer in ms."""

    def ask(store: MilvusStore) -> list[float]:
        return [
            1000 * timed(partial(store.propose, terms, vector, Filters(), LIMIT)) for terms, vector in corpus.questions
        ]

    start = time.perf_counter()
    with ThreadPoolExecutor(len(stores)) as pool:
        taken = sorted(each for found in pool.map(ask, stores) for each in found)
    seconds = time.perf_counter() - start
    return len(taken) / seconds, statistics.median(taken), taken[int(0.95 * (len(taken) - 1))]


def outcome(work: Callable[[], object]) -> str:
    """Return what a call said, and when."""
    start = time.perf_counter()
    try:
        work()
    except LorelogError as error:
        said = "" if error.code == "store_unreachable" else f" ({error.message[:120]})"
        return f"{error.code} after {time.perf_counter() - start:.1f} s{said}"
    return f"done after {time.perf_counter() - start:.1f} s"


def differences(stores: Sequence[MilvusStore]) -> tuple[int, int, int]:
    """Return the rows of all machines that are missing in Milvus, surplus there, and unlike their catalogs."""
    found = [store.compare() for store in stores]
    return sum(each.missing for each in found), sum(each.surplus for each in found), sum(each.unlike for each in found)


def lose_server(home: Path, stores: Sequence[MilvusStore], more: Corpus, *, returns: bool) -> bool:
    """Kill the server in the middle of a write, start it again, and print what happened. Return whether nothing is lost."""
    folder = home / ("returning" if returns else "lost")
    process, uri = start_server(folder)
    port = int(uri.rpartition(":")[2])
    tenant = f"loss{time.time_ns()}"
    machines = [opened(folder / f"home{number}", uri, tenant, shared=True) for number in range(2)]
    half = part_of(more, 0, 2), part_of(more, 1, 2)
    for machine in machines:
        fill(machine, half[0] if machine is machines[0] else part_of(half[0], 0, 2), Result(""))
    said: list[str] = []
    writer = threading.Thread(target=lambda: said.append(outcome(lambda: fill(machines[0], half[1], Result("")))))
    writer.start()
    time.sleep(0.5)
    process.kill()
    process.wait()
    if returns:
        time.sleep(_DOWN_S)
        process, _ = start_server(folder, port)
    terms, vector = more.questions[0]
    meanwhile = outcome(lambda: machines[1].propose(terms, vector, Filters(), LIMIT))
    writer.join()
    if not returns:
        process, _ = start_server(folder, port)
    try:
        caught_up = timed(lambda: fill(machines[0], half[1], Result("")))
        lost = differences(machines)
        state = "restarted after 3 s" if returns else "down until the write failed"
        print(f"| server killed 0.5 s into a write, {state} | {said[0]} | {meanwhile} | {caught_up:.1f} s | {lost} |")
        return lost == (0, 0, 0)
    finally:
        for machine in machines:
            machine.close()
        process.kill()
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--questions", type=int, default=20)
    args = parser.parse_args()
    corpus = make_corpus(args.size, args.dimension, args.questions)
    parts = [part_of(corpus, number, args.machines) for number in range(args.machines)]
    with tempfile.TemporaryDirectory(prefix="lorelog-bench-") as place:
        home = Path(place)
        process, uri = start_server(home / "server")
        try:
            tenant = f"team{time.time_ns()}"
            stores = [opened(home / f"a{number}", uri, tenant, shared=True) for number in range(args.machines)]
            in_turn = write_all(stores, parts, 1)
            others = [opened(home / f"b{number}", uri, f"{tenant}b", shared=True) for number in range(args.machines)]
            at_once = write_all(others, parts, args.machines)
            print(f"{args.machines} machines, {args.size:,} chunks together, {args.dimension} dimensions\n")
            print(f"write: one after the other {in_turn:.1f} s, at once {at_once:.1f} s")
            for count in (1, args.machines):
                rate, median, slow = ask_all(others[:count], corpus)
                print(f"search, {count} at once: {rate:.1f} a second, median {median:.0f} ms, p95 {slow:.0f} ms")
            lost = differences(others)
            print(f"rows missing, surplus, unlike: {lost}\n")
            for store in (*stores, *others):
                store.close()
        finally:
            process.kill()
            process.wait()
        print("| event | the writer | a search meanwhile | the next write | missing, surplus, unlike after it |")
        print("|---|---|---|---|---|")
        kept = [lose_server(home, stores, corpus, returns=returns) for returns in (True, False)]
    return 0 if all(kept) and lost == (0, 0, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
