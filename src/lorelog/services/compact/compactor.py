"""Compacting from beginning to end: what is chosen, summed up and checked becomes one memory, once.

The summary's id is made of what it covers and of who words it how, so the same is written once however often it is asked for. Nothing
is written before all of it is there. What a model has worded is put aside first, in a file of the tenant's folder: whoever is
killed before the journal has it does not pay for it again, and an entry that was torn in the middle is completed by the next run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from lorelog.core.compact import NONE, CompactOptions, CompactReply
from lorelog.core.document import StoredChunk, short_hash
from lorelog.core.errors import NotFound, StoreBusy, StoreUnwritable, UsageError
from lorelog.core.locking import locks_within
from lorelog.core.memory import AddReply, NewMemory
from lorelog.core.ports import Progress
from lorelog.core.record import ORIGINS
from lorelog.ingest.redact import redact
from lorelog.services.add import add_in
from lorelog.services.compact.batching import by_meaning
from lorelog.services.compact.sources import OURS, Chosen, Source, choose
from lorelog.services.compact.wording import Plan, Worded, Worder, make_plan
from lorelog.services.consolidate import worst_origin
from lorelog.services.delete import get
from lorelog.services.fates import Fates
from lorelog.services.gate import Gate
from lorelog.services.journal import journal_of, stands_in
from lorelog.services.lifecycle import Add
from lorelog.services.session.means import Means
from lorelog.services.tombstones import Tombstones

_MOST_PROMPT_BYTES = 40_000
_KEPT_S = 7 * 86400.0
_CHUNKS = "{chunks}"
"""Where other tools' prompt files want the sources; ours come after the prompt."""


@dataclass(frozen=True, slots=True)
class Compactor:
    """Sums up what one project remembers."""

    means: Means
    fates: Fates
    tombstones: Tombstones
    language: Callable[[], Gate | None]
    add: Add

    def compact(self, options: CompactOptions, progress: Progress | None = None) -> CompactReply:
        """Sum up what is chosen in one memory. Raise Capped or ModelError, and write nothing, when a model fails."""
        with (
            nullcontext()
            if options.dry_run
            else _alone(self._drafts / f"{short_hash(self.means.place.project.id)}.lock")
        ):
            return self._compact(options, progress)

    def _compact(self, options: CompactOptions, progress: Progress | None) -> CompactReply:
        store = self.means.store
        self._tidy()
        gate = None if options.llm == NONE else self.language()
        prompt = read_prompt(options.prompt_file)
        chosen = choose(store, self.means.place.project.id, options.filters, self.fates, self._clean)
        worded_by = f"{gate.provider}/{gate.model}" if gate else NONE
        empty = CompactReply(worded_by, 0, changed=False, covered_before=chosen.covered, dry_run=options.dry_run)
        if not chosen.sources:
            return replace(empty, notes=(_nothing(chosen),))
        plan = make_plan(chosen.sources, by_meaning(store), gate, prompt)
        told = replace(
            empty, chunks=len(chosen.sources), batches=plan.reports(), tokens_most=plan.most_tokens(), notes=_said(plan)
        )
        if options.llm != NONE and gate is None:
            note = "no language model is chosen (llm.provider): sentences are taken out instead"
            told = replace(told, notes=(*told.notes, note))
        if options.dry_run:
            return told
        identity = _identity(chosen.sources, worded_by, prompt)
        stands = self._standing(identity, options)
        if stands is not None:
            return replace(
                told, summary=stands, notes=(*told.notes, "the same was summed up before: nothing was written")
            )
        return self._carry_out(plan, identity, options, told, progress)

    def _carry_out(
        self,
        plan: Plan,
        identity: str,
        options: CompactOptions,
        told: CompactReply,
        progress: Progress | None,
    ) -> CompactReply:
        draft = _Draft(self._drafts / f"{identity}.json")
        memory = draft.read()
        worded = Worded((), told.batches)
        if memory is None:
            with self.means.aside():
                worded = Worder(plan, self._clean, progress).word()
            if not worded.lines:
                return replace(told, batches=worded.batches, notes=(*told.notes, "there is nothing in it to sum up"))
            memory = _memory(identity, plan, worded, told)
            draft.write(memory)
        else:
            told = replace(told, notes=(*told.notes, "worded by an earlier run that was stopped before it was written"))
        summary = self._write(memory, options.output_dir)
        draft.drop()
        return replace(
            told,
            changed=True,
            summary=summary,
            text=memory.text,
            batches=worded.batches,
            dropped=worded.dropped,
            tokens_spent=worded.tokens,
            calls=worded.calls,
            notes=(*told.notes, *worded.notes, *summary.notes),
        )

    def _tidy(self) -> None:
        """Drop what earlier runs have put aside and that has come into the index since, by whomever, or that nobody came back for.

        It holds what notes say, and those may be deleted meanwhile.
        """
        for path in self._drafts.glob(f"{OURS}*"):
            with suppress(OSError):
                is_old = time.time() - path.stat().st_mtime > _KEPT_S
                if is_old or (path.suffix == ".json" and self.means.store.find(path.stem)):
                    _Draft(path).drop()

    @property
    def _drafts(self) -> Path:
        return self.means.place.tenant_folder / "compact"

    def _write(self, memory: NewMemory, directory: str) -> AddReply:
        """Write to the day's file of a directory, or to the project's journal of today where none is named, and index it."""
        if not directory:
            return self.add([memory], to_global=False)[0]
        means = self.means
        return add_in(directory, memory, means.roots.all(), means.job, means.store, means.embedder)

    def _clean(self, text: str) -> str:
        """Return a text without its secrets."""
        return redact(text, self.means.options.patterns).text

    def _standing(self, identity: str, options: CompactOptions) -> AddReply | None:
        """Return where the summary stands already: in the index, or in a journal that is not indexed yet."""
        known = get(identity, self.means.store, self.tombstones)
        if known.deleted_at:
            raise UsageError(
                f"the summary of this was deleted on {known.deleted_at[:10]}",
                hint=f"'lorelog restore {identity}' brings it back; another --llm or --prompt-file makes another one",
            )
        if known.memory is not None:
            return _place(known.memory, identity)
        directory = Path(options.output_dir) if options.output_dir else self.means.place.journals
        draft = _Draft(self._drafts / f"{identity}.json").read()
        today = journal_of(directory, datetime.now().astimezone())
        for journal in sorted(directory.glob("*.md"), reverse=True):
            # Whoever was stopped may have been stopped in the middle of writing. Today's journal is completed, so it is gone on with.
            is_torn = draft is not None and (journal == today or not _ends_with(journal, draft.text))
            if not is_torn and stands_in(journal, identity):
                return AddReply(identity, "", str(journal), 0, 0, searchable=False)
        return None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let nobody else sum up the same project meanwhile: both would pay for it, and what one covers the other would cover, too."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreUnwritable(
            f"{path} cannot be written: {error.strerror or error}", hint="make it writable"
        ) from error
    try:
        if not locks_within(descriptor, 0.0):
            raise StoreBusy(
                "another run is summing up this project", hint="wait for it: what it covers need not be summed up again"
            )
        yield
    finally:
        os.close(descriptor)


def _ends_with(journal: Path, text: str) -> bool:
    """Say whether a journal has the last line of a text."""
    with suppress(OSError):
        return journal.is_file() and text.rpartition("\n")[2].encode() in journal.read_bytes()
    return False


def read_prompt(path: str) -> str:
    """Return what a person has written to be told to a model; empty where they have named no file."""
    if not path:
        return ""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            text = file.read(_MOST_PROMPT_BYTES + 1)
    except OSError as error:
        raise NotFound(f"{path} cannot be read: {error.strerror}", hint="--prompt-file names a text file") from error
    if len(text) > _MOST_PROMPT_BYTES:
        raise UsageError(f"{path} is longer than {_MOST_PROMPT_BYTES:,} bytes", hint="a prompt is a page or two")
    prompt = text.decode("utf-8", "replace").replace(_CHUNKS, "").strip()
    if not prompt:
        raise UsageError(f"{path} says nothing", hint="write how to sum up, or leave --prompt-file out")
    return prompt


class _Draft:
    """A summary that is worded and not yet in its journal."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> NewMemory | None:
        try:
            held = json.loads(self._path.read_text("utf-8"))
            return NewMemory(
                text=str(held["text"]),
                type="summary",
                origin=str(held["origin"]),
                id=str(held["id"]),
                at=datetime.fromisoformat(held["at"]),
                covers=tuple(map(str, held["covers"])),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, memory: NewMemory) -> None:
        held = {"id": memory.id, "text": memory.text, "origin": memory.origin, "covers": memory.covers}
        held["at"] = (memory.at or datetime.now().astimezone()).isoformat()
        aside = self._path.with_suffix(f".{os.getpid()}.tmp")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(held, file)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self._path)
        except OSError as error:
            raise StoreUnwritable(
                f"{self._path} cannot be written: {error.strerror or error}", hint="nothing was added; free some space"
            ) from error

    def drop(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def _memory(identity: str, plan: Plan, worded: Worded, told: CompactReply) -> NewMemory:
    sources = [one for batch in plan.batches for one in batch]
    days = sorted(one.day for one in sources if one.day)
    span = "" if not days else f", {days[0]}" if days[0] == days[-1] else f", {days[0]} to {days[-1]}"
    how = "in their own sentences" if plan.gate is None else f"worded by {told.worded_by}"
    chunks = "1 chunk" if len(sources) == 1 else f"{len(sources):,} chunks"
    return NewMemory(
        text="\n".join([f"Summary of {chunks}{span}, {how}.", "", *map(str, worded.lines)]),
        type="summary",
        origin=_origin([one.stored for one in sources], worded=plan.gate is not None),
        id=identity,
        at=datetime.now().astimezone(),
        covers=tuple(sorted(one.hash for one in sources)),
    )


def _origin(sources: Sequence[StoredChunk], *, worded: bool) -> str:
    """Return the least trusted of the sources' origins. What a model has worded is no longer a person's own word."""
    worst = worst_origin(sources)
    return max(worst, "agent", key=ORIGINS.index) if worded else worst


def _identity(sources: Sequence[Source], worded_by: str, prompt: str) -> str:
    return OURS + short_hash(json.dumps([sorted(one.hash for one in sources), worded_by, prompt]))


def _place(stored: StoredChunk, identity: str) -> AddReply:
    chunk = stored.chunk
    return AddReply(identity, stored.id, chunk.source, chunk.start_line, chunk.end_line, searchable=True)


def _nothing(chosen: Chosen) -> str:
    if chosen.covered:
        return f"nothing is left to sum up: {chosen.covered:,} chunks are covered by summaries already"
    return "there is nothing to sum up: no chunk of this project was chosen"


def _said(plan: Plan) -> tuple[str, ...]:
    cut = sum(one.text.endswith("\n[\u2026]") for batch in plan.batches for one in batch)
    return (f"{cut:,} chunks are longer than the model reads at once, and were cut",) if cut else ()
