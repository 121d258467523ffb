"""Add memories: decide on admission, append them to today's journal, and index it at once.

Agents tend to note that they are still working, and such a note is later found in place of something that was learned. So mere
acknowledgements are refused to agents and tools, and kept for two weeks for people. Texts compiled from records are never
accepted as memories. Only whole texts are judged, by closed lists: a single word of content is enough to be admitted.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace

from lorelog.core.document import GLOBAL_PROJECT, FileStamp, SourceFile
from lorelog.core.errors import StoreError, UsageError
from lorelog.core.memory import AddReply, AdmissionDecision, AdmissionResult, NewMemory
from lorelog.core.options import ListOptions
from lorelog.core.paths import is_below
from lorelog.core.ports import Embedder, Store
from lorelog.core.record import DIGEST_MARK, is_digest_text
from lorelog.language.lexicon import lexicon
from lorelog.light.git_location import read_head
from lorelog.services.indexing.run import IndexJob, IndexRun
from lorelog.services.memories.journal import JournalEntry, append_entries, check_memory, has_entry, to_anchor_word
from lorelog.services.memory_state.authored import AuthoredMemories
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
from lorelog.services.places.roots import Root, find_innermost_root
from lorelog.services.places.workspace import FOLDER, Workspace

SHORT_DAYS = 14
TRACE_DAYS = 30
_MIN_URGENT_PRIORITY = 8
_MIN_ACTION_CHARS = 24
_PROGRAM_ORIGINS = frozenset({"agent", "tool"})
_TRACE_TAGS = frozenset({"kind:trace", "kind:run"})
_CONVERSATION_KINDS = frozenset({"conversation", "message", "chat", "turn"})
_MAX_CHATTER_CHARS = 200
"""A longer text is not a mere acknowledgement."""

_GENERATED_TAG = "task:status:generated"
_WRAPPED_TAGS = ("task:role:", "task:digest:")
_WRAPPER = re.compile(
    r"^\W{0,4}Artifact role:\W{0,4}(?:project_brief|task_resume|resume|failure_library|decision_library|evidence_library"
    r"|highlight_library|highlights?|digest)\W{0,4}$",
    re.MULTILINE,
)
_PRIORITY = re.compile(r"(?:priority|importance):(\d{1,3})")
_ACTION = re.compile(r"\bAgent action:\s*([^\n]+)", re.IGNORECASE)
_VERB = re.compile(
    r"\b(?:add|always|apply|ask|avoid|build|call|check|choose|clean|commit|confirm|convert|copy|create|delete|"
    r"disable|document|do not|don['\u2019]t|enable|ensure|escalate|export|fix|follow|import|include|index|inspect|install|"
    r"keep|limit|log|migrate|never|notify|open|pass|pin|prefer|preserve|query|raise|read|rebuild|record|refuse|reject|"
    r"remove|rename|replace|report|require|rerun|reset|restart|restore|retry|return|review|rotate|run|search|send|set|skip|"
    r"start|stop|store|test|treat|update|upgrade|use|validate|verify|wait|warn|write)\b",
    re.IGNORECASE,
)

_BREAKS = re.compile(
    r"[.!?;:,\u2026\u3002\uff01\uff0c\uff1f\u3001\n]+|\s[-\u2013\u2014]+\s|\s(?:and|then|so|und|y|et)\s"
)
_EDGES = re.compile(r"^\W+|\W+$")
_ACKNOWLEDGEMENT_LINES = frozenset(
    """
    ok|okay|k|kk|yes|yep|yeah|no|nope|sure|sure thing|fine|good|great|nice|cool|perfect|excellent|awesome|right|alright|all right
    all good|all set|looks good|looks good to me|lgtm|sounds good|got it|i see|understood|noted|ack|acknowledged|roger|copy that
    thanks|thank you|thx|ty|you are welcome|no problem|np|will do|on it|i am on it|i'm on it|done|all done|finished|complete
    completed|task complete|task completed|task done|that is done|that's done|it is done|ready|ready to go|let's go|go ahead|go
    continue|continuing|continuing now|i will continue|i'll continue|let me continue|going on|moving on|proceeding|proceed
    next|next step|on to the next step|moving to the next step|working|working on it|still working|still working on it|i am working on it
    i'm working on it|in progress|work in progress|wip|starting|starting now|started|getting started|beginning|here we go
    one moment|one second|just a moment|just a second|hold on|wait|please wait|checking|let me check|let me see|looking
    looking into it|i will look into it|i'll look into it|thinking|hmm|hm|ah|oh|update|status update|progress update|no change
    no changes|no update|no updates|nothing new|nothing to report|nothing to add|same as before|see above|tbd|todo|n/a|na|test|testing
    hello|hi|hey|good morning|bye|sorry|oops|never mind|nvm|please|continue please|please continue|keep going|carry on
    fertig|erledigt|alles klar|verstanden|weiter|mach weiter|ja|nein|gut|danke|passt|in arbeit|bin dran
    listo|hecho|vale|de acuerdo|entendido|gracias|sigue|continuar|trabajando en ello|en progreso
    fait|c'est fait|d'accord|compris|merci|oui|non|terminé|en cours|je continue
    fatto|va bene|capito|grazie|feito|pronto|certo|obrigado|entendi
    готово|хорошо|ок|спасибо|понял|продолжаю|да|нет
    好的|好|可以|完成|已完成|继续|收到|明白|了解|谢谢|正在处理|没问题
    はい|了解です|完了|完了しました|わかりました|ありがとう|완료|네|알겠습니다
    """.replace("\n", "|").split("|")
)
_ACKNOWLEDGEMENTS = frozenset(" ".join(phrase.split()) for phrase in _ACKNOWLEDGEMENT_LINES if phrase.strip())
_OPENERS = frozenset("ok okay yes yep yeah great good perfect nice cool alright thanks done sure".split())
"""Words that may be followed by another acknowledgement without punctuation."""
_WORD = re.compile(r"[^\W_]+(?:['\u2019_][^\W_]+)*")


def admit(memory: NewMemory, today: date) -> AdmissionResult:
    """Decide whether a memory is kept, for how long, and why. A pure function."""
    refusal = _find_refusal_reason(memory)
    if refusal:
        return AdmissionResult(AdmissionDecision.REFUSED, refusal)
    if memory.expires:
        return AdmissionResult(AdmissionDecision.EPHEMERAL, "as requested", memory.expires)
    if _priority(memory.tags) is not None:
        return AdmissionResult(AdmissionDecision.DURABLE, "it has a priority")
    if _is_chatter(memory.text) or (_is_progress(memory) and not _has_content(memory.text)):
        refused = memory.origin in _PROGRAM_ORIGINS and not _is_conversation(memory)
        decision, until = (
            (AdmissionDecision.REFUSED, "")
            if refused
            else (AdmissionDecision.EPHEMERAL, _date_after(today, SHORT_DAYS))
        )
        return AdmissionResult(decision, "it acknowledges something and says nothing that could be looked for", until)
    if memory.type == "trace" or _TRACE_TAGS & set(memory.tags):
        return AdmissionResult(AdmissionDecision.EPHEMERAL, "a trace of what was run", _date_after(today, TRACE_DAYS))
    return AdmissionResult(AdmissionDecision.DURABLE, "it says something")


def _find_refusal_reason(memory: NewMemory) -> str:
    """Return why a memory is refused in any case; empty if it is not."""
    if not memory.text.strip():
        return "the text is empty"
    generated = _GENERATED_TAG in memory.tags and any(tag.startswith(_WRAPPED_TAGS) for tag in memory.tags)
    if generated or _WRAPPER.search(memory.text) or _is_compiled(memory):
        return "it was compiled from records and is not a memory of its own"
    urgent = (_priority(memory.tags) or 0) >= _MIN_URGENT_PRIORITY
    if urgent and memory.origin in _PROGRAM_ORIGINS and not _names_action(memory.text):
        return (
            f"a priority of {_MIN_URGENT_PRIORITY} and more needs a sentence that says what to do: 'Agent action: …', "
            f"at least {_MIN_ACTION_CHARS} characters with a verb"
        )
    return ""


def _is_compiled(memory: NewMemory) -> bool:
    """Return whether a text is a digest or, from a program, contains one. People may quote digests."""
    contains_digest = memory.origin != "user" and any(
        line.lstrip(" >").startswith(DIGEST_MARK) for line in memory.text.split("\n")
    )
    return contains_digest or is_digest_text(memory.text)


def _priority(tags: tuple[str, ...]) -> int | None:
    return max((int(match[1]) for tag in tags if (match := _PRIORITY.fullmatch(tag))), default=None)


def _names_action(text: str) -> bool:
    actions = (match[1].strip() for match in _ACTION.finditer(text))
    return any(len(action) >= _MIN_ACTION_CHARS and _VERB.search(action) for action in actions)


def _is_conversation(memory: NewMemory) -> bool:
    return memory.type in _CONVERSATION_KINDS or any(f"kind:{kind}" in memory.tags for kind in _CONVERSATION_KINDS)


def _is_progress(memory: NewMemory) -> bool:
    return memory.type == "progress" or "kind:progress" in memory.tags


def _is_chatter(text: str) -> bool:
    """Return whether a text consists only of acknowledgements."""
    if len(text) > _MAX_CHATTER_CHARS:
        return False
    whole = _EDGES.sub("", " ".join(text.casefold().replace("\u2019", "'").split()))
    if whole in _ACKNOWLEDGEMENTS:
        return True
    parts = [_EDGES.sub("", part) for part in _BREAKS.split(text.casefold().replace("\u2019", "'"))]
    parts = [" ".join(part.split()) for part in parts if part]
    return bool(parts) and all(map(_is_acknowledgement, parts))


def _is_acknowledgement(part: str) -> bool:
    """Return whether a part is an acknowledgement, or several as in `ok thanks`."""
    while part not in _ACKNOWLEDGEMENTS:
        first, _, part = part.partition(" ")
        if first not in _OPENERS or not part:
            return False
    return True


def _has_content(text: str) -> bool:
    """Return whether a text has a word that distinguishes it from other progress notes."""
    words = _WORD.findall(text.casefold())
    return any(word not in lexicon("filler_words") and not word.isdigit() for word in words)


def _date_after(today: date, days: int) -> str:
    return (today + timedelta(days=days)).isoformat()


def add(
    memories: Sequence[NewMemory],
    root: Root,
    job: IndexJob,
    store: Store,
    embedder: Embedder | None,
    directory: str = "",
) -> list[AddReply]:
    """Append memories to a journal in `root`, or in a directory of it, all or none, and index that journal once.

    It is today's, or that of the first memory's own day; the others must be of the same day.
    Once they are in the file they are safe; an index that cannot be written then is a note, not an error.
    """
    now = datetime.now().astimezone()
    admissions = [_check_admission(memory, now.date()) for memory in memories]
    kept = [replace(memory, expires=admission.expires) for memory, admission in zip(memories, admissions, strict=True)]
    entries = append_entries(
        Path(directory or root.path), kept, kept[0].at or now, private=root.project == GLOBAL_PROJECT
    )
    try:
        notes = _index_journal(entries[0].path, replace(job, roots=(root,)), store, embedder)
    except StoreError as error:
        notes = (f"saved, but not searchable yet: {error.message}",)
        replies = [_make_reply(entry, "", notes) for entry in entries]
    else:
        replies = [_make_indexed_reply(entry, store, notes) for entry in entries]
    return [
        replace(reply, admission=admission, origin=memory.origin)
        for reply, admission, memory in zip(replies, admissions, kept, strict=True)
    ]


def find_same_memory(
    memory: NewMemory, root: Root, store: Store, authored: AuthoredMemories, lifecycle: LifecycleIndex
) -> AddReply | None:
    """Return a memory in `root` that was written here with the same text, type, tags, cues and expiry, and is shown; or None."""
    if memory.id or memory.supersedes or memory.covers:
        return None
    for identity in authored.find_same(memory):
        try:
            chunks = [stored for stored in store.find(identity) if root.holds(stored.chunk.source)]
        except StoreError:
            return None
        first = chunks[0].chunk if chunks else None
        if first is None or set(first.tags) != set(memory.tags) or lifecycle.hides(chunks[0], ListOptions()):
            continue
        if first.anchor is not None and first.anchor.memory == identity and has_entry(Path(first.source), identity):
            lines = [(stored.chunk.start_line, stored.chunk.end_line) for stored in chunks]
            start, end = min(start for start, _ in lines), max(end for _, end in lines)
            notes = ("the same text was remembered before; nothing was added",)
            reply = AddReply(identity, chunks[0].id, first.source, start, end, searchable=True, notes=notes)
            return replace(reply, origin=memory.origin, existed=True)
    return None


def describe_new_project(place: Workspace) -> tuple[str, ...]:
    """Return what to say about a project's first memory. Call it before that memory is written."""
    if place.journals.exists():
        return ()
    if not place.project.git:
        return (f"new project {place.project.id} (no Git repository here); --global remembers it for every project",)
    if os.path.lexists(Path(place.project.id) / FOLDER):
        return ()
    return (f"Git ignores {FOLDER}; delete {FOLDER}/.gitignore to share memories by Git",)


def redact_memories(
    memories: Sequence[NewMemory], patterns: Sequence[str] = ()
) -> tuple[list[NewMemory], list[dict[str, int]]]:
    """Return memories without secrets, and the number of removed secrets of each by kind.

    In the text a marker replaces the secret. A tag, a cue or a type with a secret is left out: it is a name to look up,
    and a marker would make it another one.
    """
    from lorelog.ingest.redaction.redact import redact

    cleaned, counts = [], []
    for memory in memories:
        text = redact(memory.text, patterns)
        kinds = Counter(text.kinds)

        def is_clean(word: str, kinds: Counter[str] = kinds) -> bool:
            found = redact(word, patterns).kinds
            kinds.update(found)
            return not found

        cleaned.append(
            replace(
                memory,
                text=text.text,
                type=memory.type if is_clean(memory.type) else "",
                tags=tuple(filter(is_clean, memory.tags)),
                cues=tuple(filter(is_clean, memory.cues)),
            )
        )
        counts.append(dict(kinds))
    return cleaned, counts


def with_git_head(memories: Sequence[NewMemory], working_tree: str) -> list[NewMemory]:
    """Return memories with the current branch and commit, unless they name them already."""
    branch, commit = read_head(working_tree)
    words = tuple((key, to_anchor_word(value)) for key, value in (("branch", branch), ("commit", commit)) if value)
    return [
        replace(memory, source=(*memory.source, *(word for word in words if word[0] not in dict(memory.source))))
        for memory in memories
    ]


def with_replaced_note(reply: AddReply, memory: NewMemory) -> AddReply:
    """Return a reply with a note that names the contradicting memories which the new one replaces."""
    old = ", ".join(memory.supersedes)
    return replace(
        reply, notes=(*reply.notes, f"replaces {old}, which said otherwise; deleting the new one undoes this")
    )


def add_to_directory(
    directory: str,
    memory: NewMemory,
    registered: Sequence[Root],
    job: Callable[[tuple[Root, ...]], IndexJob],
    store: Store,
    embedder: Embedder | None,
) -> AddReply:
    """Append a memory to the day's file in a directory that the user named, and index it if it is inside a root."""
    real = os.path.realpath(directory)
    root = find_innermost_root(real, registered)
    if root is not None and not any(is_below(real, excluded) for excluded in root.exclude):
        return add([memory], root, job((root,)), store, embedder, real)[0]
    entry = append_entries(Path(real), [memory], datetime.now().astimezone())[0]
    notes = (f"written, but {real} is not indexed: 'lorelog index {real}' makes it searchable",)
    return replace(_make_reply(entry, "", notes), origin=memory.origin)


def _check_admission(memory: NewMemory, today: date) -> AdmissionResult:
    check_memory(memory)
    admission = admit(memory, today)
    if admission.decision is AdmissionDecision.REFUSED:
        raise UsageError(
            f"not remembered: {admission.reason}",
            hint="write what a later session should know; 'lorelog add' of your own words is always kept",
        )
    return admission


def _make_indexed_reply(entry: JournalEntry, store: Store, notes: tuple[str, ...]) -> AddReply:
    try:
        chunks = [stored for stored in store.find(entry.memory) if stored.chunk.source == str(entry.path)]
    except StoreError as error:
        return _make_reply(entry, "", (*notes, f"saved, but not searchable yet: {error.message}"))
    if not chunks and not notes:
        notes = ("saved, but not searchable: look for an open code fence or comment above it in the journal",)
    return _make_reply(entry, chunks[0].id if chunks else "", notes)


def _make_reply(entry: JournalEntry, identity: str, notes: tuple[str, ...]) -> AddReply:
    return AddReply(
        memory=entry.memory,
        id=identity,
        source=str(entry.path),
        start_line=entry.start_line,
        end_line=entry.end_line,
        searchable=bool(identity),
        notes=notes,
    )


def _index_journal(path: Path, job: IndexJob, store: Store, embedder: Embedder | None) -> tuple[str, ...]:
    file = SourceFile(str(path), job.roots[0].path, FileStamp.from_stat(path.lstat()))
    report = IndexRun(store, embedder, job).over_file(file)
    return (*report.notes, *(problem.message for problem in report.problems))
