"""Gathers public text: questions and passages of all sources, mixed.

python -m train.gather --mirrors DIR --out DIR [--share 0.1] [--sources a,b]

Writes pairs-NAME.jsonl.gz for each source, then texts-NN.jsonl.xz: all of them, mixed, in parts that fit through a narrow
door, and held.jsonl.xz: pairs of repositories that nothing else is taken of, to see when training should stop. `train.pack`
turns those into tokens, and leaves out what the judged sets hold.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from random import Random

from train.passages import MAX_LETTERS, MIN_LETTERS, Pair, as_note, one_line, said_within
from train.repository import Repository
from train.sources import SOURCES, Source

SEED = 20
PART_LETTERS = 30_000_000
HELD_PAIRS = 1500
"""Of each kind, at most."""
KIND_SHARE = 0.35
"""Of all pairs, at most."""
NOTES = 0.15
"""Share of passages that are written as notes."""


def main() -> int:
    args = _arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    chosen = [source for source in SOURCES if not args.sources or source.repository in args.sources.split(",")]
    with ProcessPoolExecutor(args.jobs) as pool:
        waiting = [pool.submit(_gather, source, args) for source in chosen]
        for done in as_completed(waiting):
            failed = done.exception()
            print(f"failed: {failed!r}" if failed else done.result(), flush=True)
    mix(args.out)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m train.gather", description="Gathers public text to train on.")
    parser.add_argument("--mirrors", type=Path, required=True, metavar="DIR", help="clones, as owner+name below it")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--share", type=float, default=1.0, help="of each source, for a try")
    parser.add_argument("--sources", default="", metavar="A,B", help="only these repositories")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


def _name(source: Source) -> str:
    mark = hashlib.blake2b(f"{source.reader.__name__} {source.pattern}".encode(), digest_size=2).hexdigest()
    return f"{source.kind}-{source.repository.replace('/', '+')}-{mark}"


def _gather(source: Source, args: argparse.Namespace) -> str:
    path = args.out / f"pairs-{_name(source)}.jsonl.gz"
    if path.exists():
        return f"{source.repository}: kept"
    repository = Repository.find(args.mirrors, source.repository)
    if repository is None:
        return f"{source.repository}: no clone, left out"
    started = time.perf_counter()
    random = Random(f"{SEED} {_name(source)}")
    most = max(1, int(source.most * args.share))
    taken = 0
    with gzip.open(path.with_suffix(".new"), "wt", encoding="utf-8", compresslevel=1) as lines:
        for pair in _varied(source.reader(repository, source.pattern, random), random):
            lines.write(json.dumps([pair.question, pair.passage], ensure_ascii=False) + "\n")
            taken += 1
            if taken >= most:
                break
    path.with_suffix(".new").rename(path)
    return f"{source.repository} ({source.kind}): {taken} pairs, {time.perf_counter() - started:.0f} s"


def _varied(pairs: Iterator[Pair], random: Random) -> Iterator[Pair]:
    """Drop what is too short or was seen, write some passages as notes, and ask for passages that nothing asks for."""
    seen: set[int] = set()
    for pair in pairs:
        question, passage = one_line(pair.question)[:400], pair.passage.replace("\x00", " ").strip()[:MAX_LETTERS]
        if passage and len(passage) < (MIN_LETTERS if not question else 12):
            continue
        mark = hash(passage or question)
        if mark in seen:
            continue
        seen.add(mark)
        if passage and len(question) < 6:
            question = said_within(passage, random)
        if passage and random.random() < NOTES:
            passage = as_note(passage, random)[:MAX_LETTERS]
        yield Pair(question, passage)


def mix(folder: Path) -> None:
    """Write the pairs of all sources in one order of chance, each passage once, and apart those of the held repositories."""
    files = {path: path.name.split("-", 2)[1:] for path in sorted(folder.glob("pairs-*.jsonl.gz"))}
    counts = {path: _count(path) for path in files}
    owners = {path: name.rpartition("-")[0] for path, (_, name) in files.items()}
    held = held_repositories([(files[path][0], owners[path], counts[path]) for path in files])
    print(f"held out: {', '.join(sorted(held))}", flush=True)
    seen: set[bytes] = set()
    taken: dict[str, list[str]] = {kind: [] for kind, _ in files.values()}
    apart: dict[str, list[str]] = {}
    for path, (kind, _) in files.items():
        with gzip.open(path, "rt", encoding="utf-8") as pairs:
            for line in pairs:
                question, passage = json.loads(line)
                mark = hashlib.blake2b(_plain(passage or question).encode(), digest_size=8).digest()
                if mark not in seen:
                    seen.add(mark)
                    row = json.dumps([question, passage, kind], ensure_ascii=False) + "\n"
                    (apart.setdefault(kind, []) if owners[path] in held else taken[kind]).append(row)
    random = Random(SEED)
    kept = [row for kind in sorted(apart) for row in random.sample(apart[kind], min(HELD_PAIRS, len(apart[kind])))]
    if kept:
        (folder / "held.jsonl.xz").write_bytes(lzma.compress("".join(kept).encode(), preset=2))
        print(f"{len(kept)} pairs held out, of {sum(map(len, apart.values()))}", flush=True)
    lines = _balanced(taken, random)
    for number, part in enumerate(_parts(lines)):
        path = folder / f"texts-{number:02}.jsonl.xz"
        path.write_bytes(lzma.compress("".join(part).encode(), preset=2))
        print(f"{path.name}: {len(part)} pairs, {path.stat().st_size / 1e6:.1f} MB", flush=True)


def _balanced(taken: Mapping[str, list[str]], random: Random) -> list[str]:
    """Return all rows in an order of chance, of no kind more than its share."""
    most = int(KIND_SHARE * sum(map(len, taken.values()))) if len(taken) > 2 else sys.maxsize
    lines: list[str] = []
    for kind, rows in sorted(taken.items()):
        lines += rows if len(rows) <= most else random.sample(rows, most)
        print(f"{kind}: {min(len(rows), most)} of {len(rows)} pairs", flush=True)
    random.shuffle(lines)
    return lines


def held_repositories(sources: Sequence[tuple[str, str, int]]) -> set[str]:
    """Choose repositories by hash: of each kind two that bring little of it. Nothing of them is trained on, whatever its kind.

    Takes kind, repository and pairs of each source.
    """
    held: set[str] = set()
    for kind in sorted({kind for kind, _, _ in sources}):
        pairs: dict[str, int] = {}
        for name, repository, count in sources:
            if name == kind:
                pairs[repository] = pairs.get(repository, 0) + count
        whole = sum(pairs.values())
        few = [{name for name, count in pairs.items() if 250 <= count <= share * whole} for share in (0.05, 0.12)]
        ranked = sorted(few[0] or few[1], key=lambda name: hashlib.blake2b(name.encode(), digest_size=8).digest())
        held.update(ranked[: 2 if len(pairs) > 3 else 0])
    return held


def _count(path: Path) -> int:
    with gzip.open(path, "rb") as lines:
        return sum(1 for _ in lines)


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower())


def _parts(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    start = size = 0
    for end, line in enumerate(lines, 1):
        size += len(line)
        if size >= PART_LETTERS or end == len(lines):
            yield lines[start:end]
            start, size = end, 0


if __name__ == "__main__":
    sys.exit(main())
