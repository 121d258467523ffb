"""What redaction finds and what it takes by mistake: generated secrets through every channel, and real code and docs.

Responsible for the figures of docs/redaction.md. Secrets are made from a fixed seed and put into the contexts of
`secret_kinds`, each inside one of several surroundings (a log line, a diff, a quotation, JSON, prose). One is missed if a
third of it is still there. With --texts, every hit in real files is counted; --details lists misses and hits, so that a
person can judge them.

    python -m bench.safety.secrets [--data DIR] [--texts DIR ...] [--seed N] [--each N] [--group NAME] [--details]
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bench.redaction import hits
from bench.redaction import texts as transcript_texts
from bench.result import REPOSITORY
from bench.safety.secret_kinds import SecretKind, secret_kinds

from lorelog.core.record import RecordDraft
from lorelog.core.session import ToolAction, TurnDigest
from lorelog.ingest.redaction.redact import redact
from lorelog.ingest.transcripts.turn_note import make_note

EACH = 24
TEXT_SUFFIXES = frozenset(
    {".py", ".pyi", ".md", ".rst", ".txt", ".js", ".mjs", ".cjs", ".ts", ".go", ".rs", ".c", ".h"}
)
MAX_FILE_BYTES = 2_000_000
HOSTILE_CHARS = 1_000_000

GROUPS = {
    "review": "found by a review",
    "tuned": "tuned",
    "development": "unseen_kinds.txt, misses read",
    "kept-apart": "unseen_kinds.txt, kept apart",
    "blind-read": "blind_kinds.txt, misses read after the first measurement",
    "blind": "blind_kinds.txt, misses never read",
}
"""What the groups of kinds are called in the table."""

Channel = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class SecretSample:
    """A text with one secret."""

    kind: SecretKind
    secret: str
    text: str


def _as_diff(text: str) -> str:
    return "\n".join(f"+{line}" for line in text.split("\n"))


def _as_quotation(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


SURROUNDINGS: tuple[Callable[[str], str], ...] = (
    str,
    str,
    lambda text: f"Here is what I have so far.\n\n{text}\n\nPlease continue with the deployment.",
    lambda text: f"```\n{text}\n```",
    lambda text: f"2026-03-05 14:02:11,123 INFO worker-2: {text}",
    lambda text: f"- {text}",
    lambda text: json.dumps({"output": text, "code": 0}, ensure_ascii=False),
    _as_diff,
    _as_quotation,
    lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
)


def make_samples(seed: int, each: int, group: str = "") -> list[SecretSample]:
    """Return `each` samples of every kind; the same seed gives the same samples."""
    samples = []
    for kind in secret_kinds():
        random = Random(f"{seed}:{kind.name}")
        for number in range(each):
            secret = kind.make(random)
            context = kind.contexts[number % len(kind.contexts)]
            text = random.choice(SURROUNDINGS)(context.replace("§", secret))
            if not group or kind.group == group:
                samples.append(SecretSample(kind, secret, text))
    return samples


def is_leaked(secret: str, output: str) -> bool:
    """Return True if a third of a secret, at least five characters, is in a text."""
    size = max(5, len(secret) // 3)
    escaped = json.dumps(secret, ensure_ascii=False)[1:-1]
    forms = {secret, escaped}
    return any(form[at : at + size] in output for form in forms for at in range(max(1, len(form) - size + 1)))


def redact_text(text: str) -> str:
    """The redaction function alone."""
    return redact(text).text


def note_of_turn(text: str) -> str:
    """The note of a captured turn: the secret is in the request, in the answer and in a command that failed."""
    action = ToolAction(tool="Bash", command=text, failed=True, error=f"error: {text}")
    digest = TurnDigest(request=text, assistant_texts=(f"The deployment works now. {text}",), actions=(action,))
    return make_note(digest, redact_text)


def fields_of_record(text: str) -> str:
    """The fields of a record, as they are written to the ledger."""
    from lorelog.services.records.writer import redact_draft

    draft = RecordDraft(kind="decision", fields={"decision": text, "reasons": [text], "data": {"output": text}})
    return json.dumps(redact_draft(draft)[0].fields, ensure_ascii=False)


def traces_of_output(text: str) -> str:
    """The errors in a command's output, as they are stored."""
    from lorelog.ingest.tracebacks.finder import find_traces
    from lorelog.services.traces.tables import redact_trace

    output = (
        'Traceback (most recent call last):\n  File "/srv/app/main.py", line 7, in main\n'
        f"    connect()\nRuntimeError: cannot connect: {text}\n"
    )
    errors = [redact_trace(located, redact_text) for located in find_traces(output)]
    return "\n".join(part for error in errors for part in (error.trace.message, error.text))


def memory_of_add(text: str) -> str:
    """The memory that `add` writes, with the secret in its text, its tags and its cues."""
    from lorelog.core.memory import NewMemory
    from lorelog.services.memories.add import redact_memories

    memories, _ = redact_memories([NewMemory(text=text, tags=(text,), cues=(f"error={text}",), origin="agent")])
    return "\n".join(line for memory in memories for line in (memory.text, memory.type, *memory.tags, *memory.cues))


CHANNELS: dict[str, Channel] = {
    "redact": redact_text,
    "note": note_of_turn,
    "record": fields_of_record,
    "stored error": traces_of_output,
    "add": memory_of_add,
}
"""The ways by which text is stored."""


def measure_recall(samples: list[SecretSample], only: str = "", *, details: bool) -> None:
    """Print the share of secrets that are gone, by kind and by channel."""
    wired = {name: channel for name, channel in CHANNELS.items() if only in {"", name}}
    missed: dict[str, Counter[str]] = {name: Counter() for name in wired}
    for sample in samples:
        for name, channel in wired.items():
            if is_leaked(sample.secret, channel(sample.text)):
                missed[name][sample.kind.name] += 1
                if details:
                    print(json.dumps([name, sample.kind.name, sample.text], ensure_ascii=False))
    totals = Counter(sample.kind.name for sample in samples)
    groups = {sample.kind.name: sample.kind.group for sample in samples}
    header = " | ".join(wired)
    if details:
        print(f"\n| kind | group | secrets | {header} |\n|---|---|---:|{'---:|' * len(wired)}")
        for name, total in totals.items():
            cells = " | ".join(str(total - missed[channel][name]) for channel in wired)
            print(f"| {name} | {groups[name]} | {total} | {cells} |")
    print(f"\n| group | kinds | secrets | {header} |\n|---|---:|---:|{'---:|' * len(wired)}")
    for group in (*dict.fromkeys(groups.values()), ""):
        names = [name for name in totals if group in {"", groups[name]}]
        total = sum(totals[name] for name in names)
        shares = [1 - sum(missed[channel][name] for name in names) / total for channel in wired]
        cells = " | ".join(f"{share:.2%}" for share in shares)
        print(f"| {GROUPS.get(group, group or 'all')} | {len(names)} | {total:,} | {cells} |")
    overall = 1 - sum(counter.total() for counter in missed.values()) / (len(samples) * len(wired))
    print(f"\nOver all channels: {overall:.2%} of {len(samples):,} secrets in {len(totals)} kinds.")


def read_texts(folders: list[Path], data: Path | None) -> Iterator[tuple[str, str]]:
    """Yield each different file of some folders, and the transcripts and pages of the data folder, with its name."""
    seen: set[int] = set()

    def is_new(text: str) -> bool:
        known = hash(text) in seen
        seen.add(hash(text))
        return not known

    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in TEXT_SUFFIXES and path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
                text = path.read_bytes().decode("utf-8", "replace")
                if is_new(text):
                    yield str(path), text
    if data is None:
        return
    yield from transcript_texts(data)
    for archive in sorted((data / "corpora").glob("*.tar.gz")):
        with tarfile.open(archive) as pages:
            for page in pages:
                file = pages.extractfile(page) if page.isfile() else None
                if file is not None and Path(page.name).suffix in TEXT_SUFFIXES:
                    yield f"{archive.name}:{page.name}", file.read().decode("utf-8", "replace")


def measure_hits(folders: list[Path], data: Path | None, *, details: bool) -> None:
    """Print the number of hits in real text; most of them are false alarms or examples of secrets."""
    characters, kinds = 0, Counter[str]()
    started = time.process_time()
    for name, text in read_texts(folders, data):
        characters += len(text)
        result = redact(text)
        kinds.update(result.kinds)
        if details and result.kinds:
            for marker, taken, context in hits(text, result):
                print(json.dumps([name, marker, taken, context], ensure_ascii=False))
    seconds = time.process_time() - started
    print(
        f"\n{kinds.total()} hits in {characters:,} characters, {characters / max(seconds, 1e-9) / 1e6:.1f} million a second"
    )
    for kind, count in kinds.most_common():
        print(f"| {kind} | {count} |")


HOSTILE = (
    *(
        "curl -u a:b ",
        "curl -u a:bcd1 ",
        "mysql -p",
        "sshpass -p a1b2c3 ",
        "password: ",
        "the password is ",
        "passphrase: a ",
    ),
    *(
        "pw ",
        "key=",
        "://a:a@",
        "a:5432:b:c:",
        ":*:",
        "api_key:\n",
        "variable ",
        'variable "password" {',
        "define('KEY', '",
    ),
    *(
        "seed phrase ",
        "recovery codes:\n",
        "$6$",
        "a:$2y$05$",
        "\u200b",
        "a\u200b",
        "Passwort ",
        "密码",
        "token_" * 9,
        "IDENTIFIED BY '",
    ),
    *(
        "Bearer ",
        "cookie: a=b;",
        "| key | a ",
        "echo a1b2c3|sudo -S ",
        "value key: token\n  value: a",
        "-----BEGIN PRIVATE KEY-----",
    ),
)


def measure_speed() -> None:
    """Print the speed on ordinary text, and the processor seconds for each hostile shape, slowest first."""
    ordinary = [text for _, text in read_texts([REPOSITORY / "src", REPOSITORY / "docs"], None)]
    started = time.process_time()
    for text in ordinary:
        redact(text)
    characters, seconds = sum(map(len, ordinary)), time.process_time() - started
    print(f"\nSource and pages of this repository: {characters / seconds / 1e6:.1f} million characters per CPU second.")
    rows = []
    for shape in HOSTILE:
        text = shape * (HOSTILE_CHARS // len(shape))
        started = time.process_time()
        redact(text)
        rows.append((time.process_time() - started, shape))
    print("\n| shape, repeated to 1 million characters | seconds of CPU |\n|---|---:|")
    for seconds, shape in sorted(rows, reverse=True)[:8]:
        print(f"| `{shape!r}` | {seconds:.2f} |")


def main() -> int:
    """Run the measurement that the options select."""
    parser = argparse.ArgumentParser(description="Recall and false alarms of redaction.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="count hits in its transcripts and pages")
    parser.add_argument(
        "--texts", type=Path, action="append", default=[], metavar="DIR", help="count hits in its files"
    )
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--each", type=int, default=EACH, help="secrets of each kind; 0: only count hits")
    parser.add_argument("--channel", default="", help="only this channel, such as redact")
    parser.add_argument(
        "--group", default="", help="only kinds of this group: review, tuned, development, kept-apart, blind"
    )
    parser.add_argument("--details", action="store_true", help="list every miss and every hit")
    options = parser.parse_args()
    if options.each:
        measure_recall(
            make_samples(options.seed, options.each, options.group), options.channel, details=options.details
        )
    if options.data or options.texts:
        measure_hits(options.texts, options.data, details=options.details)
    if options.each:
        measure_speed()
    return 0


if __name__ == "__main__":
    sys.exit(main())
