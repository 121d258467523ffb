"""Summarize a project's memories into one memory, once.

The summary's id is derived from the covered chunks, the model and the prompt, so the same summary is written once. Nothing is
written before all of it exists. A model's summary is first saved as a draft in the tenant's folder: a run that was killed before
the journal was written does not pay twice, and the next run completes a torn entry.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from lorelog.core.atomic_file import Writing, write_atomic
from lorelog.core.document import short_hash
from lorelog.core.errors import NotFound, StoreBusy, UsageError, plural
from lorelog.core.memory import NO_LLM, AddReply, CompactOptions, CompactReply, NewMemory
from lorelog.core.ports import Progress
from lorelog.core.processes import FileLock
from lorelog.core.record import ORIGINS
from lorelog.ingest.redaction.redact import redact
from lorelog.services.compact.sources import SUMMARY_PREFIX, select_sources
from lorelog.services.compact.summary_writer import (
    TRUNCATION_MARK,
    SummaryPlan,
    SummaryWriter,
    WrittenSummary,
    plan_summary,
)
from lorelog.services.llm.metered import MeteredLlm
from lorelog.services.memories.add import add_to_directory
from lorelog.services.memories.journal import has_entry
from lorelog.services.memories.lifecycle import AddMemories, existing_reply, least_trusted_origin
from lorelog.services.memories.listing import get_memory
from lorelog.services.memory_state.lifecycle_index import LifecycleIndex
from lorelog.services.memory_state.tombstones import Tombstones
from lorelog.services.sessions.capture import CaptureContext

_MAX_PROMPT_BYTES = 40_000
_MAX_DRAFT_AGE_S = 7 * 86400.0
_CHUNKS_PLACEHOLDER = "{chunks}"
"""Prompt files of other tools mark the position of the sources with it; ours follow the prompt."""


class Compactor(Struct, frozen=True):
    """Summarizes the memories of one project."""

    context: CaptureContext
    lifecycle: LifecycleIndex
    tombstones: Tombstones
    language: Callable[[], MeteredLlm | None]
    add: AddMemories

    def compact(self, options: CompactOptions, progress: Progress | None = None) -> CompactReply:
        """Write one summary of the selected chunks. Raise DailyLimitReached or ModelError, and write nothing, if a model fails."""
        with (
            nullcontext()
            if options.dry_run
            else _exclusive_lock(self._drafts / f"{short_hash(self.context.workspace.project.id)}.lock")
        ):
            return self._compact(options, progress)

    def _compact(self, options: CompactOptions, progress: Progress | None) -> CompactReply:
        store = self.context.store
        self._remove_old_drafts()
        llm = None if options.llm == NO_LLM else self.language()
        prompt = read_prompt(options.prompt_file)
        project = self.context.workspace.project.id
        sources, covered = select_sources(store, project, options.filters, self.lifecycle, self._clean)
        worded_by = f"{llm.provider}/{llm.model}" if llm else NO_LLM
        empty = CompactReply(worded_by, 0, changed=False, covered_before=covered, dry_run=options.dry_run)
        if not sources:
            known = f"{plural(covered, 'chunk')} already covered by summaries"
            return _add_notes(
                empty, f"nothing to summarize: {known if covered else 'no chunk of this project matches'}"
            )
        plan = plan_summary(sources, llm, prompt)
        reply = replace(empty, chunks=len(sources), batches=plan.reports(), tokens_most=plan.max_tokens())
        cut = sum(source.text.endswith(TRUNCATION_MARK) for batch in plan.batches for source in batch)
        if cut:
            reply = _add_notes(reply, f"{cut:,} chunks are longer than the model's context window and were truncated")
        if options.llm != NO_LLM and llm is None:
            note = "no language model is configured (llm.provider): using extracted sentences instead"
            reply = _add_notes(reply, note)
        if options.dry_run:
            return reply
        hashes = sorted(source.hash for source in sources)
        identity = SUMMARY_PREFIX + short_hash(json.dumps([hashes, worded_by, prompt]))
        existing = self._find_existing(identity, options)
        if existing is not None:
            note = "the same summary exists already: nothing was written"
            return replace(_add_notes(reply, note), summary=existing)
        return self._write_summary(plan, identity, options, reply, progress)

    def _write_summary(
        self, plan: SummaryPlan, identity: str, options: CompactOptions, reply: CompactReply, progress: Progress | None
    ) -> CompactReply:
        draft = self._drafts / f"{identity}.json"
        memory = _read_draft(draft)
        written = WrittenSummary(reply.batches)
        if memory is None:
            with self.context.yield_write_lock():
                written = SummaryWriter(plan, self._clean, progress).write()
            if not written.lines:
                return replace(_add_notes(reply, "the chunks contain nothing to summarize"), batches=written.batches)
            memory = _make_memory(identity, plan, written, reply)
            with Writing(draft, hint="nothing was added; free some space"):
                draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_atomic(draft, encode(memory))
        else:
            reply = _add_notes(reply, "an earlier run that was interrupted had finished this summary")
        context = self.context
        if options.output_dir:
            with context.own_entries([memory], ""):
                summary = add_to_directory(
                    options.output_dir, memory, context.roots.all(), context.job, context.store, context.embedder
                )
        else:
            summary = self.add([memory], to_global=False)[0]
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        return replace(
            _add_notes(reply, *written.notes, *summary.notes),
            changed=not summary.existed,
            summary=summary,
            text=memory.text,
            batches=written.batches,
            dropped=written.dropped,
            tokens_spent=written.tokens,
            calls=written.calls,
        )

    def _remove_old_drafts(self) -> None:
        """Remove drafts that are indexed by now, or were abandoned.

        Drafts contain text of notes, and those may have been deleted meanwhile.
        """
        for path in self._drafts.glob(f"{SUMMARY_PREFIX}*"):
            with suppress(OSError):
                is_old = time.time() - path.stat().st_mtime > _MAX_DRAFT_AGE_S
                if is_old or (path.suffix == ".json" and self.context.store.find(path.stem)):
                    path.unlink(missing_ok=True)

    @property
    def _drafts(self) -> Path:
        return self.context.workspace.tenant_folder / "compact"

    def _clean(self, text: str) -> str:
        return redact(text, self.context.options.patterns).text

    def _find_existing(self, identity: str, options: CompactOptions) -> AddReply | None:
        """Return where the summary already exists: in the index, or in a journal that is not indexed yet."""
        stored = get_memory(identity, self.context.store, self.tombstones)
        if stored.deleted_at:
            raise UsageError(
                f"this summary was deleted on {stored.deleted_at[:10]}",
                hint=f"'lorelog restore {identity}' restores it; another --llm or --prompt-file creates a different one",
            )
        if stored.memory is not None:
            return existing_reply(stored.memory)
        directory = Path(options.output_dir) if options.output_dir else self.context.workspace.journals
        # After a run that was interrupted, its entry may be incomplete, too: adding it again completes it.
        is_unfinished = _read_draft(self._drafts / f"{identity}.json") is not None
        for journal in () if is_unfinished else sorted(directory.glob("*.md"), reverse=True):
            if has_entry(journal, identity):
                return AddReply(identity, "", str(journal), 0, 0, searchable=False)
        return None


@contextmanager
def _exclusive_lock(path: Path) -> Iterator[None]:
    """Prevent concurrent summaries of the same project: both would pay, and cover the same chunks."""
    busy = StoreBusy("another run is summarizing this project", hint="wait until it has finished")
    with ExitStack() as stack:
        with Writing(path, hint="make it writable"):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(FileLock(path, busy))
        yield


def read_prompt(path: str) -> str:
    """Return the user's prompt; empty if no file is named."""
    if not path:
        return ""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MAX_PROMPT_BYTES + 1)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}", hint="--prompt-file names a text file") from error
    if len(text) > _MAX_PROMPT_BYTES:
        raise UsageError(f"{path} is longer than {_MAX_PROMPT_BYTES:,} bytes", hint="a prompt is a page or two")
    prompt = text.decode("utf-8", "replace").replace(_CHUNKS_PLACEHOLDER, "").strip()
    if not prompt:
        raise UsageError(f"{path} is empty", hint="write how to summarize, or omit --prompt-file")
    return prompt


def _read_draft(path: Path) -> NewMemory | None:
    """Return a finished summary that is not yet in its journal."""
    try:
        return decode(path.read_bytes(), type=NewMemory)
    except (OSError, ValueError):
        return None


def _add_notes(reply: CompactReply, *notes: str) -> CompactReply:
    return replace(reply, notes=(*reply.notes, *notes))


def _make_memory(identity: str, plan: SummaryPlan, written: WrittenSummary, reply: CompactReply) -> NewMemory:
    sources = [source for batch in plan.batches for source in batch]
    days = sorted(source.day for source in sources if source.day)
    span = "" if not days else f", {days[0]}" if days[0] == days[-1] else f", {days[0]} to {days[-1]}"
    method = f"worded by {reply.worded_by}" if written.is_worded else "in their own sentences"
    chunks = plural(len(sources), "chunk")
    worst = least_trusted_origin([source.stored for source in sources])
    return NewMemory(
        text="\n".join([f"Summary of {chunks}{span}, {method}.", "", *map(str, written.lines)]),
        type="summary",
        origin=max(worst, "agent", key=ORIGINS.index) if written.is_worded else worst,
        id=identity,
        at=datetime.now().astimezone(),
        covers=tuple(sorted(source.hash for source in sources)),
    )
