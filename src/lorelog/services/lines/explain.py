"""Answers why a line exists: who wrote it, for which prompt, what was said and tested meanwhile, and whether that still holds.

"Unknown" is an answer, with its reason. Everything that is quoted comes from notes that are redacted already.

It also finds what is remembered about a file: a memory belongs to a definition or a file that it names as code; a word of prose is no
name. Notes of turns are left out: they name every file of a session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct, convert
from msgspec.structs import asdict, replace

from lorelog.code.extract import extract
from lorelog.code.git import BlamedLine, Git
from lorelog.code.languages.registry import DETECTION_BYTES, detect_language
from lorelog.code.source import decode_source
from lorelog.core.code import Symbol
from lorelog.core.document import Chunk, StoredChunk
from lorelog.core.errors import NotFound, UsageError
from lorelog.core.query import NO_LIFECYCLE_STATE, UNCHECKED_VERDICT, Filters, FreshnessVerdict, Hit, LifecycleState
from lorelog.core.serializable import Serializable
from lorelog.core.session import STATEMENT_KINDS
from lorelog.light.delivery_files import shorten_line
from lorelog.light.session_start import parse_note
from lorelog.light.shell_command import command_variants, is_test_run, split_command
from lorelog.services.freshness.mentions import Mention, MentionKind, find_mentions
from lorelog.services.lines import attribution
from lorelog.services.traces.tables import TURN, TracedEdit, TraceFilter, format_moment

_MAX_TEXT_CHARS, _MAX_LINE_CHARS, _MAX_SAID, _MAX_TESTS, _MAX_DECISIONS = 400, 200, 5, 3, 5
_MAX_CALLS, _SEARCHED = 2_000, 20
_HINT_S, _DAYS_AFTER = 3 * 86_400, 1
"""Days after a turn within which its tests and what was said belong to it."""
_DECISION_TYPES = ("decision", "correction", "preference")


class Evidence(Serializable, Struct, frozen=True):
    """What speaks for the session of a line."""

    kind: str
    """`text`, `note`, `trailer` or `time`."""
    strength: str
    """`line`: it is about this line; `commit`: about its commit; `hint`: it names no session by itself."""
    text: str


class LineCommit(Serializable, Struct, frozen=True, kw_only=True):
    """The commit of a line, in the repository's words."""

    id: str
    author: str
    date: str
    subject: str
    path: str
    """The file's name then."""
    line: int


class LineSession(Serializable, Struct, frozen=True, kw_only=True):
    """The turn that wrote a line."""

    session: str
    host: str
    turn: str
    memory: str
    """Id of the turn's note, to expand it or read its conversation; empty if the note is gone."""
    at: str
    branch: str
    prompt: str
    outcome: str


class LineStatement(Serializable, Struct, frozen=True, kw_only=True):
    """What was decided or said about a line, its file or symbol, or in the session that wrote it."""

    id: str
    type: str
    date: str
    text: str
    origin: str
    superseded_by: str
    freshness: str = ""
    """Empty if it was not checked."""
    change: str = ""
    """What became of the code that it names."""


class LineTest(Serializable, Struct, frozen=True):
    """The last run of tests after a line was written."""

    command: str
    passed: bool
    at: str


class LineReason(Serializable, Struct, frozen=True, kw_only=True):
    """Why a line exists, as far as it is known."""

    path: str
    line: int
    symbol: str
    text: str
    commit: LineCommit | None = None
    """None for a line that is not committed."""
    session: LineSession | None = None
    evidence: tuple[Evidence, ...] = ()
    said: tuple[LineStatement, ...] = ()
    """Corrections, decisions and plans of the same session, oldest first."""
    tests: tuple[LineTest, ...] = ()
    decisions: tuple[LineStatement, ...] = ()
    """Decisions, corrections and preferences that name the file or the symbol."""
    unknown: str = ""
    """Why no session is named."""


class ReasonSources(attribution.LineSources, frozen=True, kw_only=True):
    """Where an answer's parts come from."""

    search: Callable[[str, int, tuple[str, ...]], Sequence[Hit]]
    """Searches memories of some types."""
    of_session: Callable[[Filters, str], Sequence[StoredChunk]]
    """Returns memories of a session, newest first."""
    get: Callable[[str], StoredChunk | None]
    state_of: Callable[[StoredChunk], LifecycleState]
    clean: Callable[[str], str]


def explain_line(place: str, directory: str, sources: ReasonSources, now_s: float) -> LineReason:
    """Return why a line exists. `place` is FILE:LINE or FILE:SYMBOL. Raise NotFound or UsageError."""
    file, number, symbol = _locate(place, directory, sources.root)
    author = attribution.find_author(str(file), number, sources, now_s)
    commit = author.commit
    if commit is not None and commit.is_boundary and Git(commit.root).is_shallow():
        unknown = f"{author.unknown}; the clone is shallow and lacks the line's commit" if author.unknown else ""
        commit, author = None, replace(author, unknown=unknown)
    claims = attribution.find_claims(commit) if commit and not author.is_bots else []
    author, evidence = _weigh(author, claims, now_s)
    edit = author.edit
    named = (symbol.rpartition(".")[2], file.name) if symbol else (file.name,)
    return LineReason(
        path=author.path,
        line=number,
        symbol=symbol,
        text=shorten_line(sources.clean(author.text.strip()), _MAX_LINE_CHARS),
        commit=_commit(commit) if commit else None,
        session=_session(edit, sources) if edit else None,
        evidence=tuple(evidence),
        said=_said(edit, sources) if edit else (),
        tests=_tests(edit, sources) if edit else (),
        decisions=_decisions(named, sources),
        unknown=author.unknown,
    )


def _commit(line: BlamedLine) -> LineCommit:
    date = format_moment(line.authored * 1000)[:10]
    names = {"author": line.author, "subject": line.subject, "path": line.path}
    return LineCommit(id=line.commit, date=date, line=line.number, **names)


def _locate(place: str, directory: str, root: str) -> tuple[Path, int, str]:
    """Return the file, the line, and the symbol around it or that was named."""
    name, colon, where = place.rpartition(":")
    if not colon or not name or not where:
        raise UsageError(f"{place!r} does not name a line", hint="write FILE:LINE or FILE:SYMBOL")
    file = locate_file(name, directory, root)
    symbols = read_source(file)[1]
    if where.isdecimal():
        number = int(where[:9])
        around = [symbol for symbol in symbols if symbol.span.start_line <= number <= symbol.span.end_line]
        return file, number, around[-1].qualified_name if around else ""
    found = [symbol for symbol in symbols if f".{symbol.qualified_name}".endswith(f".{where}")]
    if not found:
        names = ", ".join(symbol.qualified_name for symbol in symbols[:5])
        raise NotFound(f"{name} has no symbol {where!r}", hint=f"it has {names}" if names else "write FILE:LINE")
    return file, found[0].name_line, found[0].qualified_name


def locate_file(name: str, directory: str, root: str) -> Path:
    """Return the real path of a file of the working tree. Raise UsageError for one outside of it, NotFound if there is none."""
    name = name.replace("\0", "")
    files, tree = [Path(base, name).resolve() for base in (directory, root)], Path(root).resolve()
    file = next((file for file in files if file.exists() and file.is_relative_to(tree)), files[1])
    if not file.is_relative_to(tree):
        raise UsageError(f"{name} is not in this working tree", hint="ask in its own project, or with --project")
    if ".git" in file.parts or not file.is_file():
        raise NotFound(f"there is no file {name}", hint="name a file of this working tree")
    return file


def read_source(file: Path) -> tuple[str, Sequence[Symbol]]:
    """Return the text of a file, and its definitions in the order of their lines; nothing of a large or binary one."""
    data = b"" if file.stat().st_size > attribution.MAX_FILE_BYTES else file.read_bytes()
    language = detect_language(file.name, data[:DETECTION_BYTES]) or ""
    decoded = decode_source(data, language)
    if not data or decoded.refusal:
        return "", ()
    return decoded.source.decode("utf-8", "replace"), extract(
        decoded.source, language, only_symbols=True
    ).symbols if language else ()


def _weigh(
    author: attribution.LineAuthor, claims: Sequence[attribution.SessionClaim], now_s: float
) -> tuple[attribution.LineAuthor, list[Evidence]]:
    """Return the author with what a note adds, and the evidence, the strongest first."""
    evidence = []
    if author.edit:
        near = f" and {author.near} of the lines around it" if author.near else ""
        said = f"session {author.edit.session} wrote this line{near} to {author.edit.name}"
        evidence.append(Evidence("text", "line", f"{said} before the commit" if author.commit else said))
    for claim in claims:
        named = f"session {' and '.join(claim.sessions)}" if claim.sessions else "an agent"
        strength = "line" if claim.is_of_line else "commit" if claim.sessions else "hint"
        evidence.append(Evidence("note" if claim.is_of_line else "trailer", strength, f"{claim.name} names {named}"))
        if claim.is_of_line and author.edit is None:
            edit = next((edit for edit in author.edits if edit.session in claim.sessions), None)
            author = replace(author, edit=edit, unknown="") if edit else author
    last, made = next(iter(author.edits), None), author.commit.authored if author.commit else now_s
    if last and author.edit is None and made - last.at / 1000 < _HINT_S:  # only time and file speak for it
        said = f"session {last.session} edited this file on {format_moment(last.at)}"
        evidence.append(Evidence("time", "hint", said))
    return author, evidence


def _session(edit: TracedEdit, sources: ReasonSources) -> LineSession:
    note = sources.get(edit.memory)
    lines = [] if note is None else [line for line in note.chunk.text.splitlines() if not line.startswith("#")]
    parts = parse_note(lines)
    prompt, outcome = parts["request"] or parts["text"][:1], parts["outcome"] or parts["text"][1:]
    return LineSession(
        session=edit.session,
        host=edit.host,
        turn=edit.turn,
        memory=edit.memory if note else "",
        at=format_moment(edit.at),
        branch=edit.branch,
        prompt=shorten_line(" ".join(prompt), _MAX_TEXT_CHARS),
        outcome=shorten_line(" ".join(outcome), _MAX_TEXT_CHARS),
    )


def _said(edit: TracedEdit, sources: ReasonSources) -> tuple[LineStatement, ...]:
    """Return what the user said in the session until the day after the line was written."""
    last = (datetime.fromtimestamp(edit.at / 1000, UTC) + timedelta(days=_DAYS_AFTER)).date().isoformat()
    filters = Filters(projects=sources.projects, until=last, types=STATEMENT_KINDS)
    found = sources.of_session(filters, edit.session)[:_MAX_SAID]
    return tuple(make_statement(stored.id, stored.chunk, sources.state_of(stored)) for stored in reversed(found))


def _tests(edit: TracedEdit, sources: ReasonSources) -> tuple[LineTest, ...]:
    """Return the last run of each test command of the session after the line was written, the newest first."""
    until = edit.at + _DAYS_AFTER * 86_400_000
    filter_ = TraceFilter(source=TURN, session=edit.session, since=edit.at, until=until, limit=_MAX_CALLS)
    runs: dict[str, LineTest] = {}
    for call in sources.tables.calls(filter_)[0]:
        if call.command and any(is_test_run(command_variants(words)) for words in split_command(call.command) if words):
            test = LineTest(shorten_line(call.command, _MAX_LINE_CHARS), not call.failed, format_moment(call.at))
            runs.setdefault(call.command, test)
    return tuple(runs.values())[:_MAX_TESTS]


def _decisions(names: Sequence[str], sources: ReasonSources) -> tuple[LineStatement, ...]:
    """Return the user's decisions that name a file or symbol, best first. Superseded ones are not found."""
    named = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names)
    hits = (hit for hit in sources.search(" ".join(names), _SEARCHED, _DECISION_TYPES) if re.search(named, hit.content))
    return tuple(make_statement(hit.id, hit, hit.lifecycle, hit.verdict) for hit in list(hits)[:_MAX_DECISIONS])


def make_statement(
    id_: str, memory: Chunk | Hit, state: LifecycleState, verdict: FreshnessVerdict | None = None
) -> LineStatement:
    """Return a memory as a statement on one line; without a verdict its freshness is not known."""
    text = memory.text if isinstance(memory, Chunk) else memory.snippet
    lines = (line.strip() for line in text.splitlines() if not line.startswith("#"))
    return LineStatement(
        id=id_,
        type=memory.type,
        date=memory.date[:10],
        text=shorten_line(" ".join(filter(None, lines)).removeprefix("- "), _MAX_TEXT_CHARS),
        origin=memory.anchor.origin if memory.anchor else "",
        superseded_by=state.superseded_by,
        freshness=str(verdict.freshness) if verdict else "",
        change="; ".join(verdict.change_phrases) if verdict else "",
    )


# -- memories about a file -------------------------------------------------------------------------------------------------

_MAX_MEMORIES = 100


class FileMemory(LineStatement, frozen=True, kw_only=True):
    """A memory that names a file, or something in it."""

    source: str
    source_line: int
    """The memory's file, and its first line there."""
    names: tuple[str, ...]
    """What it names of the file, without the container."""
    lines: tuple[int, ...]
    """The definitions that it names; line 1 if it names the file; none if it names only what the file uses."""


class FileMemories(Serializable, Struct, frozen=True, kw_only=True):
    """What is remembered about a file."""

    path: str
    memories: tuple[FileMemory, ...] = ()
    """Those about definitions and the file first, then the newest first."""


def find_memories(
    file: Path,
    root: str,
    memories: Sequence[StoredChunk],
    *,
    verdicts: Callable[[Sequence[StoredChunk]], Mapping[str, FreshnessVerdict]],
    with_origin: Callable[[StoredChunk], StoredChunk],
) -> tuple[FileMemory, ...]:
    """Return those of the memories that name a file or something in it; none of a binary, generated or huge file."""
    text, defined = read_source(file)
    path = file.relative_to(Path(root).resolve()).as_posix()
    words = {*re.findall(r"[A-Za-z_$][\w$]*", text), *re.findall(r"\w+", path)}
    symbols = [(f".{symbol.qualified_name}", symbol.name_line) for symbol in defined]
    found: list[tuple[StoredChunk, tuple[str, ...], tuple[int, ...]]] = []
    for stored in memories if text else ():
        mentions = find_mentions(stored.chunk.text)
        named = list(_named(mentions, path, words))
        is_elsewhere = "" not in named and any(mention.kind is MentionKind.PATH for mention in mentions)
        if named:
            parts = [f".{name}" for name in named]
            lines = {line for symbol, line in symbols if not is_elsewhere and symbol.endswith(tuple(parts))}
            lines |= {1} if "" in named else set()
            found.append((stored, tuple(name.rpartition(".")[2] for name in named if name), tuple(sorted(lines))))
    found = sorted(found, key=lambda each: not each[2])[:_MAX_MEMORIES]
    of_found, shown = verdicts([stored for stored, _, _ in found]), []
    for stored, names, places in found:
        verdict, chunk = of_found.get(stored.id, UNCHECKED_VERDICT), with_origin(stored).chunk
        statement = make_statement(stored.id, chunk, NO_LIFECYCLE_STATE, verdict)
        place = {"source": chunk.source, "source_line": chunk.start_line}
        shown.append(convert({**asdict(statement), **place, "names": names, "lines": places}, FileMemory))
    return tuple(shown)


def _named(mentions: Sequence[Mention], path: str, words: set[str]) -> Iterator[str]:
    """Yield the names of a file's words that a memory mentions, and an empty one for the file itself."""
    for mention in mentions:
        if mention.kind is MentionKind.PATH and attribution.is_same_file(mention.text, path):
            yield ""
        elif mention.kind is MentionKind.SYMBOL and words.issuperset(parts := mention.text.split(".")):
            inside = [part for part in parts if part not in path.replace(".", "/").split("/")]  # without the module
            yield ".".join(inside or parts)
