"""What redaction takes out of real sessions, and how fast: every hit is shown, so that a person can judge it.

Responsible for the claim "few false alarms". Published transcripts were cleaned by whoever published them, so nearly
every hit in them is a false alarm; the rest is read off the file that --show writes. Texts are all strings in the
transcripts' JSON, not only what becomes a note: prompts, answers, tool inputs, results, and ids, hashes and signatures
too. Texts that occur again are counted once, because sessions repeat whole files.

    python bench/redaction.py --data DIR [--show FILE] [--pattern REGEX]
"""

import argparse
import gzip
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lorelog.ingest.redaction.redact import RedactionResult, redact

CONTEXT = 40
SECTIONS = ("transcripts/claude_code/*.jsonl.gz", "transcripts/opencode/*.json.gz")
MARKERS = re.compile(r"\[redacted:[a-z0-9-]+\]|\[private\]")


def strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value, wherever they are."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def texts(data: Path) -> Iterator[tuple[str, str]]:
    """Each different text of the transcripts, with the file it is in."""
    seen: set[str] = set()
    for section in SECTIONS:
        for path in sorted(data.glob(section)):
            whole = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
            for document in whole.splitlines() if path.name.endswith(".jsonl.gz") else [whole]:
                for text in strings(json.loads(document)) if document.strip() else ():
                    if text not in seen:
                        seen.add(text)
                        yield path.name, text


def hits(text: str, redacted: RedactionResult) -> Iterator[tuple[str, str, str]]:
    """Each replacement: the marker, what was there, and both with their surroundings."""
    position = 0
    pieces = list(MARKERS.finditer(redacted.text))
    ends = [*(piece.start() for piece in pieces[1:]), len(redacted.text)]
    behind = 0
    for piece, end in zip(pieces, ends, strict=True):
        position += piece.start() - behind
        following = redacted.text[piece.end() : end]
        after = text.find(following, position) if following else len(text)
        taken = text[position:after]
        yield piece[0], taken, text[max(0, position - CONTEXT) : after + CONTEXT]
        position, behind = after, piece.end()


def main() -> int:
    parser = argparse.ArgumentParser(description="What redaction takes out of real sessions, and how fast.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="holds transcripts/HOST/*.gz")
    parser.add_argument("--show", type=Path, metavar="FILE", help="write every hit with its surroundings")
    parser.add_argument("--pattern", action="append", default=[], metavar="REGEX", help="as in redact.patterns")
    options = parser.parse_args()
    every = list(texts(options.data))
    if not every:
        print(f"bench: no transcripts under {options.data}", file=sys.stderr)
        return 1
    characters = sum(len(text) for _, text in every)
    redact("warm", options.pattern)
    started = time.process_time()
    results = [redact(text, options.pattern) for _, text in every]
    seconds = time.process_time() - started
    kinds: Counter[str] = Counter()
    for result in results:
        kinds.update(result.kinds)
    print("| what | value |\n|---|---:|")
    print(f"| texts | {len(every):,} |\n| characters | {characters:,} |")
    print(f"| million characters a second of CPU time | {characters / seconds / 1e6:.1f} |")
    print(f"| redactions | {kinds.total():,} |")
    print(f"| redactions per million characters | {kinds.total() / characters * 1e6:.1f} |")
    for kind, count in kinds.most_common():
        print(f"| {kind} | {count:,} |")
    if options.show:
        lines = [
            json.dumps({"file": name, "marker": marker, "taken": taken, "context": context}, ensure_ascii=False)
            for (name, text), result in zip(every, results, strict=True)
            if result.kinds
            for marker, taken, context in hits(text, result)
        ]
        options.show.write_text("\n".join([*lines, ""]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
