"""Measures quality on judged sets; see the package.

python -m bench.quality --data DIR [--sets a,b] [--vectors DIR] [--limit N] [--json OUT] [--dump FILE]
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from bench.quality import tables
from bench.quality.measuring import Job, SetResult, run
from bench.quality.pipeline import NotIndexed, NotReranked
from bench.quality.sets import BadSet, names_in
from bench.quality.vectors import BadVectors

SAID = (
    "BM25 is our lexical lane alone and dense our dense lane alone; memsearch is memsearch's way of ranking (plain words and "
    "dense, each cut at 10, RRF 60). All four rank the same chunks with the same vectors; ours has default settings. Stressed questions "
    "have lost the words that their answers hold, so that BM25 finds none of them."
)

LOST = (
    "How far our ranking is below the better of the two lanes (nDCG@10; negative: above both), with the questions as they are "
    "and stressed, asked of the whole set and of parts with 20, 60 and 160 chunks (at most 60 and 40 questions, so a few "
    "hundredths are chance)."
)


def main() -> int:
    args = _arguments()
    started = time.perf_counter()
    try:
        names = _names(args.data, args.sets)
        before = json.loads(args.against.read_text("utf-8")) if args.against else None
        results = sorted(_results(args, names), key=lambda result: names.index(result.name))
    except (BadSet, BadVectors, NotIndexed, NotReranked, OSError) as error:
        print(f"bench.quality: {error}", file=sys.stderr)
        return 1
    print(f"## Lost against the better lane\n\n{tables.regret_table(results)}\n\n{LOST}\n")
    print(f"## nDCG@10 of all sets\n\n{tables.summary(results)}\n\n{SAID}\n")
    if typed := tables.keyword_table(results):
        print(
            f"## nDCG@10 of keywords\n\nOne to five words of a document; every document that has them is an answer.\n\n{typed}\n"
        )
    if any(result.claims for result in results):
        print(f"## Relevance that first hits claim\n\n{tables.calibration_table(results)}\n")
    if before is not None:
        print(f"## Against {args.against}\n\n{tables.against(results, before)}\n")
    print(f"{time.perf_counter() - started:.0f} s in all.")
    if args.json:
        args.json.write_text(json.dumps(tables.as_json(results), ensure_ascii=False) + "\n", "utf-8")
    if args.dump:
        _join(args.dump, [_part(args.dump, name) for name in names])
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description="Quality on judged sets.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="holds retrieval/SET/corpus.jsonl.gz")
    parser.add_argument("--sets", default="", metavar="A,B", help="only these sets")
    parser.add_argument("--vectors", type=Path, metavar="DIR", help="keep vectors here from run to run")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep files and indexes here from run to run")
    parser.add_argument(
        "--limit", type=int, default=0, metavar="N", help="only N judged questions of a set, spread over all"
    )
    parser.add_argument("--least", type=int, default=10, metavar="N", help="rank at least N documents (for --dump)")
    parser.add_argument("--no-calibration", dest="calibration", action="store_false", help="ask nothing unanswerable")
    parser.add_argument(
        "--no-stress", dest="stress", action="store_false", help="ask no stressed questions and no keywords"
    )
    parser.add_argument("--anchors", action="store_true", help="write an anchor below the heading of every turn")
    parser.add_argument("--rerank", default="", metavar="MODEL", help="let this cross-encoder read the first hits")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything measured")
    parser.add_argument("--dump", type=Path, metavar="FILE", help="a JSON line for each question; .gz packs it")
    parser.add_argument("--against", type=Path, metavar="OUT", help="compare with what --json wrote before")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="sets at a time")
    return parser.parse_args()


def _names(data: Path, chosen: str) -> list[str]:
    known = names_in(data)
    names = [name.strip() for name in chosen.split(",") if name.strip()] or known
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadSet(f"{data} has no set {', '.join(unknown)}; it has {', '.join(known)}")
    return names


def _results(args: argparse.Namespace, names: Sequence[str]) -> Iterator[SetResult]:
    """Measure the sets, several at a time, largest first, and print each result when it is ready."""
    size = {name: (args.data / "retrieval" / name / "queries.jsonl.gz").stat().st_size for name in names}
    one = Job(
        data=args.data.resolve(),
        name="",
        vectors=args.vectors and args.vectors.resolve(),
        keep=args.keep and args.keep.resolve(),
        limit=args.limit,
        least=args.least,
        calibration=args.calibration,
        anchors=args.anchors,
        rerank=args.rerank,
        stress=args.stress,
    )
    jobs = [
        replace(one, name=name, dump=args.dump and _part(args.dump, name))
        for name in sorted(names, key=size.__getitem__)[::-1]
    ]
    # Spawned, not forked: the lanes and the model have threads.
    with ProcessPoolExecutor(max(1, args.jobs), mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run, job) for job in jobs]):
            result = done.result()
            print(f"{tables.set_table(result)}\n", flush=True)
            yield result


def _part(dump: Path, name: str) -> Path:
    return dump.with_name(f"{dump.name}.{name}.part")


def _join(dump: Path, parts: Sequence[Path]) -> None:
    with gzip.open(dump, "wb") if dump.suffix == ".gz" else dump.open("wb") as whole:
        for part in parts:
            whole.write(part.read_bytes())
            part.unlink()


if __name__ == "__main__":
    sys.exit(main())
