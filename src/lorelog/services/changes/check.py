"""Finds what a change runs against: guards, rules, memories that it makes false, failures at the same place, and earlier reverts.

Names carry every finding: a command that the change adds, a file, a definition that it changes. Likeness of texts never does, and what is in
doubt is not said: a name that several files define, a line that only moved, a rule about a place. A guard is the means against that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from lorelog.code.git import Git, GitHistory
from lorelog.code.languages.registry import detect_language
from lorelog.core.code import Symbol, SymbolKind
from lorelog.core.errors import plural
from lorelog.core.ports import group_by
from lorelog.core.serializable import ReplyItems, Serializable
from lorelog.light.delivery_files import RULE_TYPES, STANDING_TYPES, clean_line, foreign_label, quote_text, shorten_line
from lorelog.light.guard_check import BLOCK, MAX_CONTENT_CHARS, CallView
from lorelog.light.wildcard import matches_path, matches_text
from lorelog.services.changes.diff import Change, ChangedFile, Line, read_change
from lorelog.services.cues.cue import CueKind, read_cues
from lorelog.services.cues.derive import derive_cues
from lorelog.services.freshness.mention_targets import (
    DefinitionRank,
    command_files,
    defines_command,
    definition_shape,
    has_word,
    rank_line,
)
from lorelog.services.freshness.mentions import Mention, MentionKind, find_mentions
from lorelog.services.freshness.project_code import (
    PROSE_SUFFIXES,
    can_parse,
    joint_digest,
    parse_symbols,
    sketch_similarity,
    source_of,
    text_sketch,
)
from lorelog.services.freshness.verdicts import MIN_SIMILARITY
from lorelog.services.guards.guard_log import Guard
from lorelog.services.guards.replay import PastCall
from lorelog.services.lines.attribution import distinctive, is_same_file
from lorelog.services.standing.rules import BROKEN, LINE, StandingRule, check_rules
from lorelog.services.traces.tables import TracedError, format_moment, line_digest

MAX_FINDINGS = 10
_MAX_TEXT_CHARS, _MAX_WHY_CHARS = 240, 160
_MIN_SESSIONS = 2
"""Sessions in which an error must have been seen."""
_MAX_ERROR_FILES, _MAX_LOGGED, _MAX_REVERTS, _MIN_REVERTED = 30, 200, 20, 3
_REVERTS_S = 3.0
_CONTAINERS = frozenset({SymbolKind.CLASS, SymbolKind.INTERFACE, SymbolKind.MODULE, SymbolKind.TYPE, SymbolKind.ENUM})
_CI_PLACES = (".github/workflows/", ".github/actions/", ".gitlab-ci", ".circleci/", ".buildkite/", "azure-pipelines")
_SCRIPTS = ("Makefile", "GNUmakefile", "justfile", "Dockerfile", ".sh", ".bash")
_STEP_KEYS = frozenset({"run", "script", "command", "before_script", "after_script"})
_NAMES = frozenset({MentionKind.SYMBOL, MentionKind.SETTING})
_COMMENTS = ("#", "//", "*", "/*", "--", "<!--", '"""')


class Finding(Serializable, Struct, frozen=True):
    """One thing that a change runs against."""

    kind: str
    """`guard`, `rule`, `memory`, `failure` or `revert`."""
    path: str
    line: int
    text: str
    """What was said, quoted if it is not from here."""
    why: str
    """What the change does."""
    source: str
    """What it is from: `guard`, `instructions`, `error`, `commit`, or the type of a memory."""
    id: str
    """Its id; of instructions, file and line."""
    date: str
    blocks: bool = False
    """True for a guard that a person set to block."""


class ChangeReport(ReplyItems[Finding], Struct, frozen=True, kw_only=True):
    """What a change runs against, the strongest first."""

    findings: tuple[Finding, ...]
    blocks: bool
    """True if a guard that a person set to block matches."""
    files: int
    lines: int
    base: str
    head: str
    """Commits; empty if there is none, or if it is not committed."""
    notes: tuple[str, ...]
    """What was left out."""
    unindexed: bool = False
    """True if a journal is newer than the index."""


class ChangeSources(Struct, frozen=True):
    """What a change is compared with."""

    root: str
    guards: Sequence[Guard]
    """Those that are on."""
    memories: Sequence[StandingRule]
    """Rules, decisions, facts, and the lines of instructions."""
    errors: Callable[[str], Sequence[TracedError]]
    """Returns the errors with a file of this name in a frame."""


class _Call(NamedTuple):
    """A part of a change as the tool call that would make it."""

    file: ChangedFile
    lines: list[Line]
    call: PastCall


def check_change(change: Change, sources: ChangeSources, git: Git, at: str) -> ChangeReport:
    """Return what a change runs against; `at` is its time (ISO), and what is younger does not count."""
    found = _find_conflicts(change, sources, git, at)
    more = len(found) - MAX_FINDINGS
    return ChangeReport(
        findings=tuple(found[:MAX_FINDINGS]),
        blocks=any(finding.blocks for finding in found),
        files=len(change.files),
        lines=sum(len(file.added) + len(file.removed) for file in change.files),
        base=change.base,
        head=change.head,
        notes=(*change.notes, *([f"{more} more findings are not shown"] if more > 0 else [])),
    )


def _find_conflicts(change: Change, sources: ChangeSources, git: Git, at: str) -> list[Finding]:
    calls = list(_calls(change, sources.root, at))
    memories = [memory for memory in sources.memories if not memory.is_stale and memory.since <= at]
    found = [
        *_find_guards(calls, sources),
        *_find_rules(calls, memories, at),
        *_find_memories(change, memories, git),
        *_find_reverts(change, git),
        *_find_failures(change, sources),
    ]
    unique: dict[object, Finding] = {}
    for finding in {(finding.kind, finding.id): finding for finding in reversed(found)}.values():
        # The same rule may stand in several places.
        key = (finding.path, finding.line, finding.why) if finding.kind == "rule" else finding.id
        unique[key] = finding
    return sorted(unique.values(), key=lambda finding: (not finding.blocks, found.index(finding)))


def _calls(change: Change, root: str, at: str) -> Iterator[_Call]:
    """Yield the edits of a change, and the commands that it adds to what is run by itself, without lines that only moved."""
    moved = {line.text.strip() for file in change.files for line in file.removed}
    more: dict[str, Any] = {"tool": "", "at": at, "directory": root}
    for file in change.files:
        new = [line for line in file.added if line.text.strip() not in moved]
        for first in range(0, len(new) or 1, 200):
            lines = new[first : first + 200]
            content = "\n".join(line.text for line in lines)[:MAX_CONTENT_CHARS]
            yield _Call(file, lines, PastCall(kind="edit", paths=tuple(file.paths), content=content, **more))
        for line in new:
            if command := _command(file.path, line.text.strip()):
                yield _Call(file, [line], PastCall(kind="run", command=command, **more))


def _command(path: str, text: str) -> str:
    """Return the command that a line of a script, a CI file or a package's scripts runs; empty if there is none."""
    if text.startswith("#"):
        return ""
    if path.startswith(_CI_PLACES):
        key, colon, value = text.removeprefix("- ").partition(":")
        is_key = bool(colon) and key.replace("-", "_").isidentifier()
        return (value.strip() if key in _STEP_KEYS else "") if is_key else text.removeprefix("- ")
    if path.rpartition("/")[2] == "package.json":
        return text.partition('": "')[2].rstrip('",')
    return text.removeprefix("RUN ").lstrip("@-+") if path.endswith(_SCRIPTS) else ""


def _find_guards(calls: Sequence[_Call], sources: ChangeSources) -> Iterator[Finding]:
    views = [(each, CallView(each.call.as_fields(), sources.root)) for each in calls]
    for guard in sources.guards:
        fields = guard.as_fields()
        hits = [each for each, view in views if view.matches(fields)]
        if hits:
            file, lines, call = hits[0]
            wanted = f"*{guard.content}*" if guard.content else ""
            line = next((line for line in lines if not wanted or matches_text(wanted, line.text)), Line(file.line, ""))
            is_exact = bool(call.command or wanted)
            what = _added(call.command or line.text) if is_exact else f"changes {file.path}"
            others = len({each.file.path for each in hits}) - 1
            why = f"{what}, and {others} more" if others else what
            at, day = line.number if is_exact else file.line, guard.changed[:10]
            yield Finding(
                "guard", file.path, at, _line(guard.message), why, "guard", guard.id, day, guard.action == BLOCK
            )


def _find_rules(calls: Sequence[_Call], memories: Sequence[StandingRule], at: str) -> Iterator[Finding]:
    rules = [memory for memory in memories if memory.type in (*RULE_TYPES, LINE)]
    places = {id(each.call): each for each in calls}
    checked = check_rules(rules, (each.call for each in calls), date.fromisoformat(at[:10]))
    for rule, (_, hits) in zip(rules, checked, strict=True):
        broken = next((hit.call for hit in hits if hit.verdict == BROKEN and hit.call.command), None)
        if broken is not None:
            file, lines, _ = places[id(broken)]
            yield _of_memory("rule", rule, file.path, lines[0].number, _added(broken.command))
    for memory in memories:
        cues = group_by(read_cues(memory.cues), lambda cue: cue.kind)
        paths = [cue.value for cue in cues.get(CueKind.PATH, ())]
        names = [cue.value for cue in cues.get(CueKind.SYMBOL, ())]
        forbids = memory.type in RULE_TYPES and memory.is_prohibition and CueKind.COMMAND not in cues
        by_hand = paths and not names and set(read_cues(memory.cues)).isdisjoint(derive_cues(memory.text))
        for file, lines, call in calls if (names and forbids) or by_hand else ():
            if paths and not any(matches_path(path, file.path) for path in paths):
                continue
            if by_hand:
                why = f"changes {file.path}, where this is to be remembered"
                yield _of_memory("rule", memory, file.path, file.line, why)
            elif any(name in call.content for name in names) and _is_code(file.path):
                used = [line for line in lines if _uses(line.text, names)]
                yield from (_of_memory("rule", memory, file.path, line.number, _added(line.text)) for line in used[:1])


def _is_code(path: str) -> bool:
    return bool(detect_language(path)) and not path.endswith(PROSE_SUFFIXES)


def _uses(text: str, names: Iterable[str]) -> bool:
    return not text.strip().startswith(_COMMENTS) and any(has_word(text, name) for name in names)


def _of_memory(kind: str, memory: StandingRule, path: str, line: int, why: str) -> Finding:
    label, source = ("quoted", "instructions") if memory.type == LINE else (foreign_label(asdict(memory)), memory.type)
    return Finding(kind, path, line, quote_text(label, _line(memory.text)), why, source, memory.id, memory.since[:10])


def _added(text: str) -> str:
    return f"adds `{shorten_line(clean_line(text), _MAX_WHY_CHARS)}`"


def _line(text: str) -> str:
    return shorten_line(clean_line(text), _MAX_TEXT_CHARS)


# -- memories that a change makes false --------------------------------------------------------------------------------


class _Outcome(NamedTuple):
    """What a change does to a definition."""

    file: ChangedFile
    symbol: Symbol
    line: int
    what: str
    now: str = ""
    """Its new name."""
    is_gone: bool = False
    is_false: bool = False


def _find_memories(change: Change, memories: Sequence[StandingRule], git: Git) -> Iterator[Finding]:
    mentions = [(memory, find_mentions(memory.text)) for memory in memories]
    named = {mention.text.rpartition(".")[2] for _, some in mentions for mention in some if mention.kind in _NAMES}
    outcomes = [outcome for file in change.files for outcome in _outcomes(file, named, change)]
    outcomes.sort(key=lambda outcome: not outcome.is_false)
    found: list[tuple[StandingRule, _Outcome, bool]] = []
    for memory, some in mentions:
        paths = [mention.text for mention in some if mention.kind is MentionKind.PATH]
        paths = [path for path in paths if not _forbids(memory, path)]
        lost = next(filter(None, (_lost(file, some, paths) for file in change.files)), None)
        if lost:
            yield _of_memory("memory", memory, lost[0].path, lost[0].line, lost[1])
            continue
        for outcome in outcomes:
            means = [
                mention.text for mention in some if mention.kind in _NAMES and _means(mention.text, outcome.symbol)
            ]
            if means and _matters(memory, outcome):
                is_placed = any(_is_path(path, outcome.file.old_path) for path in paths)
                if is_placed or any(_is_distinct(name, memory) for name in means):
                    found.append((memory, outcome, is_placed))
    names = sorted({outcome.symbol.name for _, outcome, is_placed in found if not is_placed})
    lines = (GitHistory(git).lines_with(change.base, names) if names and change.base else ()) or ()
    for memory, outcome, is_placed in found:
        name = outcome.symbol.name.encode()
        places = {path for path, line in lines if name in line and rank_line(line, name) is DefinitionRank.LIKELY}
        if is_placed or places <= set(outcome.file.paths):
            yield _of_memory("memory", memory, outcome.file.path, outcome.line, outcome.what)


def _is_distinct(name: str, memory: StandingRule) -> bool:
    """Return whether a name is hardly used by chance, as it stands in a memory."""
    cues = (*read_cues(memory.cues), *derive_cues(memory.text))
    return any(cue.kind is CueKind.SYMBOL and cue.value == name for cue in cues)


def _forbids(memory: StandingRule, path: str) -> bool:
    """Return whether a memory says that a file is not to be there, or not to be touched: such a one stays true without it."""
    return any(
        path in part and replace(memory, text=part).is_prohibition
        for part in memory.text.replace("; ", ". ").split(". ")
    )


def _means(name: str, symbol: Symbol) -> bool:
    return f".{symbol.qualified_name}".endswith(f".{name}") or f".{name}".endswith(f".{symbol.qualified_name}")


def _matters(memory: StandingRule, outcome: _Outcome) -> bool:
    """Return whether a memory is to be looked at: a line of instructions only if the name is gone, a fact if it may be false."""
    matters = outcome.is_gone if memory.type == LINE else outcome.is_false or memory.type in STANDING_TYPES
    return matters and not (outcome.now and has_word(memory.text, outcome.now))


def _is_path(named: str, path: str) -> bool:
    return named.strip("/") == path or ("/" in named.strip("/") and path.endswith(f"/{named.strip('/')}"))


def _lost(file: ChangedFile, mentions: Iterable[Mention], paths: Sequence[str]) -> tuple[ChangedFile, str] | None:
    """Return what a change does to a file or command that a memory names, if it is not there any more."""
    was, now = (any(_is_path(path, name) for path in paths) for name in (file.old_path, file.new_path))
    if was and not now:
        return file, f"renames {file.old_path} to {file.new_path}" if file.new_path else f"removes {file.old_path}"
    for mention in mentions:
        if mention.kind is MentionKind.COMMAND and file.old_path in command_files(mention.text):
            texts = (file.old_text or "", file.new_text or "" if file.new_path else "")
            is_read = file.old_text is not None and (file.new_text is not None or not file.new_path)
            if is_read and [defines_command(text, file.old_path, mention.text) for text in texts] == [True, False]:
                return file, f"removes `{mention.text}` from {file.old_path}"
    return None


def _symbols(path: str, text: str | None) -> Sequence[Symbol]:
    source = (text or "").encode("utf-8", "replace")
    return parse_symbols(path, source) if path and source and can_parse(path, source) else ()


def _outcomes(file: ChangedFile, named: set[str], change: Change) -> Iterator[_Outcome]:
    """Yield what a change does to the definitions of a file that have one of some names; formatting does nothing."""
    old_text, new_text = file.old_text or "", file.new_text if file.new_path else ""
    present = [name for name in named if name in old_text]
    if not file.old_path or new_text is None or not any(_defines(line, present) for line in old_text.split("\n")):
        return
    old = group_by(_symbols(file.old_path, old_text), lambda symbol: symbol.qualified_name)
    if not any(_is_touched(symbol, file) for some in old.values() for symbol in some if symbol.name in named):
        return  # parsing takes most of the time
    new = group_by(_symbols(file.new_path, new_text), lambda symbol: symbol.qualified_name)
    for name, before in old.items():
        symbol, after = before[0], new.get(name, ())
        if symbol.name not in named or joint_digest(before) == joint_digest(after):
            continue
        if not after:
            new_ones = [each for key, some in new.items() if key not in old for each in some]
            yield from _gone(file, symbol, new_ones, change)
            continue
        shapes = [
            definition_shape(file.path, tuple(source_of(text, each) for each in some), symbol.name)
            for text, some in ((old_text, before), (new_text, after))
        ]
        span = range(after[0].span.start_line, after[-1].span.end_line + 1)
        line = next((line.number for line in file.added if line.number in span), after[0].name_line)
        if all(each.signature != symbol.signature for each in after):
            yield _Outcome(file, symbol, line, f"gives {name} another signature: {after[0].signature}", is_false=True)
        elif symbol.kind not in _CONTAINERS and not (shapes[0] and shapes[0] == shapes[1]):
            yield _Outcome(file, symbol, line, f"changes {name}")


def _defines(line: str, names: Iterable[str]) -> bool:
    found = [name for name in names if name in line]
    return any(rank_line(line.encode("utf-8", "replace"), name.encode()) > DefinitionRank.USE for name in found)


def _is_touched(symbol: Symbol, file: ChangedFile) -> bool:
    first, last = symbol.span.start_line - 1, symbol.span.end_line
    return any(hunk.start <= last and hunk.start + len(hunk.old) >= first for hunk in file.hunks)


def _gone(file: ChangedFile, symbol: Symbol, new: Sequence[Symbol], change: Change) -> Iterator[_Outcome]:
    """Yield what became of a definition that is not there any more; nothing if it only moved to another file."""
    name, sketch = symbol.qualified_name, text_sketch(source_of(file.old_text or "", symbol))

    def likeness(each: Symbol) -> float:
        same = each.digest == symbol.digest
        return 1.0 if same else sketch_similarity(sketch, text_sketch(source_of(file.new_text or "", each)))

    best = max((each for each in new if each.kind is symbol.kind), key=likeness, default=None)
    if best is not None and likeness(best) >= MIN_SIMILARITY:
        what = f"renames {name} to {best.qualified_name}"
        yield _Outcome(file, symbol, best.name_line, what, best.name, is_gone=True, is_false=True)
        return
    others = [
        each for each in change.files if each is not file and any(symbol.name in line.text for line in each.added)
    ]
    if not any(each.name == symbol.name for other in others for each in _symbols(other.new_path, other.new_text)):
        yield _Outcome(file, symbol, file.line, f"removes {name}", is_gone=True, is_false=True)


# -- what happened at the same place -----------------------------------------------------------------------------------


def _find_failures(change: Change, sources: ChangeSources) -> Iterator[Finding]:
    """Yield the errors that were raised, in several sessions, in a function that a change touches."""
    for file in [file for file in change.files if file.old_text and detect_language(file.path)][:_MAX_ERROR_FILES]:
        errors = [
            (error, frame.function.rpartition(".")[2])
            for error in sources.errors(file.old_path.rpartition("/")[2])
            for frame in error.trace.frames[:1]
            if frame.function and error.trace.type != "test failure" and is_same_file(frame.file, file.old_path)
        ]
        changed = {outcome.symbol.name: outcome for outcome in _outcomes(file, {name for _, name in errors}, change)}
        for signature, same in group_by(errors, lambda pair: pair[0].signature).items():
            error, name = same[0]
            sessions = {each.session for each, _ in same}
            if name in changed and len(sessions) >= _MIN_SESSIONS:
                why = f"{changed[name].what}, where {len(sessions)} sessions had this error"
                text, day = _line(f"{error.trace.type}: {error.trace.message}"), format_moment(error.at)[:10]
                yield Finding("failure", file.path, changed[name].line, text, why, "error", signature, day)


def _find_reverts(change: Change, git: Git) -> Iterator[Finding]:
    """Yield the reverts that a change undoes: it adds, or removes, the same lines again."""
    names = {file.old_path for file in change.files if file.old_path and not file.left_out}
    # Without paths: Git reads the trees of these commits only, not of the whole history.
    words = (
        "--name-only",
        "--grep=^This reverts commit [0-9a-f]\\{7,40\\}",
        f"-n{_MAX_LOGGED}",
        "--format=%x01%H%x00%cs%x00%s%x00%b%x00",
    )
    logged = git.run_text("log", *words, change.base, timeout_s=_REVERTS_S) if names and change.base else ""
    if logged is None:
        change.notes.append("earlier reverts were not looked for: Git did not answer in time")
    entries = [entry.split("\0") for entry in (logged or "").split("\x01")[1:]]
    # A squashed series may quote a revert in its middle, and is none.
    own = (entry for entry in entries if "revert" in entry[2].lower() or entry[3].startswith("This reverts"))
    reverted = [entry[:3] for entry in own if not names.isdisjoint(entry[4].splitlines())]
    added = {line_digest(line.text) for file in change.files for line in file.added}
    removed = {line_digest(line.text) for file in change.files for line in file.removed}
    for commit, day, subject in reverted[:_MAX_REVERTS]:
        reverts = {file.path: file for file in read_change(git, f"{commit}^..{commit}", None).files}
        for file in (file for file in change.files if file.new_path and file.old_path in reverts):
            earlier = reverts[file.old_path]
            ways = ((file.added, earlier.removed, removed, "adds"), (file.removed, earlier.added, added, "removes"))
            for now, then, moved, what in ways:
                undone = {line_digest(line.text) for line in then if distinctive(line.text)}
                same = [line for line in now if line_digest(line.text) in undone - moved]
                found = len({line_digest(line.text) for line in same})
                if found and found >= min(_MIN_REVERTED, len(undone)) and 2 * found >= len(undone):
                    text = quote_text("commit message", _line(subject))
                    why = f"{what} {plural(len(same), 'line')} again that this commit had taken back"
                    yield Finding("revert", file.path, same[0].number, text, why, "commit", commit, day)
