"""Measure the notes of turns on real sessions: their length, and how often they lose what mattered.

Each complaint has a definition of its own here, which does not call the code that it judges: a next step, chatter, a
question and a code block are recognised by simple rules in this file. So the same run judges an older version as well:

    python -m bench.delivery.notes --data DIR [--show N]
    PYTHONPATH=OTHER/src python -m bench.delivery.notes --data DIR        the notes of another checkout

DIR holds transcripts of any supported host, also compressed (.gz), in any folder below it. Turns that several
transcripts repeat count once. If the version knows them, the question before a request and the findings in the middle of
a turn are filled in where the reader of the transcript did not.
"""

import argparse
import gzip
import random
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from lorelog.core.errors import LorelogError
from lorelog.core.session import TurnDigest
from lorelog.ingest.redaction.redact import redact
from lorelog.ingest.transcripts import turn_note
from lorelog.ingest.transcripts.conversation import open_conversation, read_conversation_head
from lorelog.ingest.transcripts.turn_note import extract_outcome, is_error_text, make_note, strip_injected_context
from lorelog.ingest.transcripts.turns import ParsedTurn, TranscriptStats

SHORT_REQUEST = 25
MAX_FOUND = 20
SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*])")
NEXT_STEP = re.compile(
    r"^(?:(?:now|next|good|great|perfect|okay|ok|right|first|excellent|alright)\b[\s,.!:—-]*)*"
    r"(?:let me (?!know)|let['’]s |i['’]ll (?:now |also |start |explore |check |update |create |switch |run |add |fix )"
    r"|(?:run|remove|update|add|fix|commit)\b.*:$)",
    re.IGNORECASE,
)
CHATTER = re.compile(
    r"rejected by the user|Sibling tool call errored|File has not been read yet|File has been modified since"
    r"|String to replace not found|Found \d+ matches of the string|No changes to make|tool_use_error|Unknown skill"
    r"|File does not exist|Path does not exist|exceeds maximum allowed|InputValidationError|Tool execution aborted"
    r"|Request interrupted by user|EISDIR| failed$|: Exit code \d+$|ERROR task failed$|posix_spawn",
    re.IGNORECASE,
)
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
WORDS = re.compile(r"\w+")


@dataclass
class NoteCounts:
    """Counts over all turns; each pair is a number of cases and of those that are bad."""

    lengths: list[int] = field(default_factory=list)
    outcomes: int = 0
    cut_at_end: int = 0
    next_steps: int = 0
    error_lines: int = 0
    chatter_lines: int = 0
    absolute_errors: int = 0
    short_requests: int = 0
    bare_requests: int = 0
    code_blocks: int = 0
    lost_prose: int = 0
    with_findings: int = 0
    escapes: int = 0

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the rows of the table."""
        lengths = sorted(self.lengths)
        yield "notes", f"{len(lengths):,}"
        if not lengths:
            return
        yield "median characters", f"{statistics.median(lengths):,.0f}"
        yield "p90 characters", f"{lengths[len(lengths) * 9 // 10]:,}"
        yield "outcomes cut at the end", share(self.cut_at_end, self.outcomes)
        yield "outcomes that are only a next step", share(self.next_steps, self.outcomes)
        yield "error lines that are tool chatter", share(self.chatter_lines, self.error_lines)
        yield "error lines with the project's absolute path", share(self.absolute_errors, self.error_lines)
        yield (
            f"requests under {SHORT_REQUEST} characters after a question, shown without it",
            share(self.bare_requests, self.short_requests),
        )
        yield "paragraphs lost after a code block of 1 to 3 lines", share(self.lost_prose, self.code_blocks)
        yield "notes with findings from the middle of the turn", share(self.with_findings, len(lengths))
        yield "notes with terminal escapes", share(self.escapes, len(lengths))


def share(part: int, whole: int) -> str:
    """Return a part of a whole as numbers and as a percentage."""
    return f"{part:,} of {whole:,} ({part / whole:.1%})" if whole else "none"


def read_sessions(data: Path) -> Iterator[tuple[str, list[ParsedTurn]]]:
    """Yield the project directory and the turns of each transcript."""
    paths = sorted(path for path in data.rglob("*") if path.name.endswith(SUFFIXES) and path.is_file())
    with tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(paths):
            source = path
            if path.suffix == ".gz":
                source = Path(folder) / f"{number}-{path.name.removesuffix('.gz')}"
                source.write_bytes(gzip.decompress(path.read_bytes()))
            try:
                conversation = open_conversation(str(source))
                head = read_conversation_head(conversation)
                turns = list(conversation.turns(TranscriptStats()))
            except LorelogError as error:
                print(f"bench: {path.name}: {error.message}", file=sys.stderr)
                continue
            if not head.is_sidechain:
                yield head.directory, [turn for turn in turns if not turn.turn.sidechain]
            if source != path:
                source.unlink()


def read_turns(data: Path) -> Iterator[tuple[str, TurnDigest, str]]:
    """Yield the directory, the digest and the answer before each different turn."""
    seen: set[str] = set()
    for directory, turns in read_sessions(data):
        before = ""
        for turn in turns:
            is_new = turn.turn.id not in seen or turn.turn.id.startswith("turn-")
            seen.add(turn.turn.id)
            if is_new:
                yield directory, complete(turn, before), before
            texts = turn.digest.assistant_texts
            before = texts[-1] if texts else before


def complete(turn: ParsedTurn, before: str) -> TurnDigest:
    """Return the digest of a turn with the fields that its version knows but the reader left empty."""
    digest: Any = turn.digest
    names = {item.name for item in msgspec.structs.fields(digest)}
    if "asked" in names and not digest.asked:
        digest = msgspec.structs.replace(digest, asked=before[-2000:])
    pick = getattr(turn_note, "pick_findings", None)
    if (
        pick is not None
        and "findings" in names
        and not digest.findings
        and turn.text_count > len(digest.assistant_texts)
    ):
        earlier = turn.turn.assistant
        for text in reversed(digest.assistant_texts):
            earlier = earlier.removesuffix(text.strip()).rstrip()
        digest = msgspec.structs.replace(
            digest, findings=tuple([found for part in earlier.split("\n\n") for found in pick(part)][-MAX_FOUND:])
        )
    completed: TurnDigest = digest
    return completed


def count_note(counts: NoteCounts, directory: str, digest: TurnDigest, before: str) -> str:
    """Add one turn to the counts and return its note."""
    note = make_note(digest, lambda text: redact(text).text, "", directory)
    if not note:
        return ""
    counts.lengths.append(len(note))
    lines = note.splitlines()
    counts.with_findings += any(line.startswith("- Found:") for line in lines)
    counts.escapes += "\x1b" in note or bool(re.search(r"(?<!\w)\[\d{1,3}(?:;\d{1,3})*m", note))
    outcome = extract_outcome(digest)
    if outcome:
        counts.outcomes += 1
        counts.cut_at_end += outcome.endswith("…")
        counts.next_steps += all(NEXT_STEP.match(text) for text in SENTENCE_END.split(outcome))
    errors = list(error_lines(lines))
    counts.error_lines += len(errors)
    counts.chatter_lines += sum(bool(CHATTER.search(line)) for line in errors)
    counts.absolute_errors += sum(bool(directory) and f"{directory}/" in line for line in errors)
    request = " ".join(strip_injected_context(digest.request).split())
    last = next((line for line in reversed(before.splitlines()) if line.strip()), "")
    if 0 < len(request) < SHORT_REQUEST and not request.startswith(("/", "!")) and last.rstrip("*_ )").endswith("?"):
        counts.short_requests += 1
        counts.bare_requests += lines[0] == f"- User asked: {request}"
    count_answers(counts, digest)
    return note


def count_answers(counts: NoteCounts, digest: TurnDigest) -> None:
    """Count paragraphs that the note of one answer alone loses."""
    texts = [text for text in digest.assistant_texts if not is_error_text(text)]
    if not texts:
        return
    for excerpt, paragraph in short_blocks(texts[-1]):
        counts.code_blocks += 1
        kept = make_note(TurnDigest("ask", (f"The change is described here in a few words of prose.\n\n{excerpt}",)))
        counts.lost_prose += " ".join(WORDS.findall(paragraph)[:5]) not in " ".join(WORDS.findall(kept))


def error_lines(lines: list[str]) -> Iterator[str]:
    """Yield the error lines of a note."""
    inside = False
    for line in lines:
        if line.startswith("- "):
            inside = line.startswith("- Errors:")
            if inside and line != "- Errors:":
                yield line
        elif inside:
            yield line


def short_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield each code block of 1 to 3 lines with the text up to the next block, and the paragraph after it."""
    lines = text.splitlines()
    fences = [index for index, line in enumerate(lines) if FENCE.match(line)]
    if not fences or len(fences) % 2:
        return
    pairs = list(zip(fences[::2], fences[1::2], strict=True))
    for (start, end), following in zip(pairs, [*pairs[1:], None], strict=True):
        if not 1 <= end - start - 1 <= 3:
            continue
        prose_end = following[0] if following else len(lines)
        prose = [line for line in lines[end + 1 : prose_end] if line.strip()]
        if prose and len(WORDS.findall(prose[0])) >= 3 and prose[0][0].isalpha() and not NEXT_STEP.match(prose[0]):
            last = following[1] + 1 if following else len(lines)
            yield "\n".join([*lines[start : end + 1], "", prose[0][:300], "", *lines[prose_end:last]]), prose[0][:300]


def measure(data: Path, show: int = 0) -> NoteCounts:
    """Return the counts over all turns below a folder, and print a sample of notes."""
    counts = NoteCounts()
    notes = [note for turn in read_turns(data) if (note := count_note(counts, *turn))]
    for note in random.Random(1).sample(notes, min(show, len(notes))):
        print(f"--- {len(note)} characters\n{note}\n")
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the notes of turns on real sessions.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="holds transcripts, also as .gz")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N notes to read")
    options = parser.parse_args()
    counts = measure(options.data, options.show)
    if not counts.lengths:
        print(f"bench: no transcripts under {options.data}", file=sys.stderr)
        return 1
    print("| notes of turns | |\n|---|--:|")
    for name, value in counts.rows():
        print(f"| {name} | {value} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
