"""Operations on exchanges between machines: `sync.*`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any

from msgspec import ValidationError, convert, structs

from lorelog.core.document import GLOBAL_PROJECT
from lorelog.core.errors import LorelogError, NotFound, StoreDamaged, StoreError, StoreUnreachable, UsageError
from lorelog.engine import Engine
from lorelog.operations.guard import check_new_guard
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import OperationRequest, about
from lorelog.services.forget.entries import ForgetQuery
from lorelog.services.guards.guard_log import GuardDraft, GuardLog
from lorelog.services.memories.edit import find_memory
from lorelog.services.memory_state.tombstones import apply_missed_deletions, is_in_sync
from lorelog.services.places.roots import Root
from lorelog.services.places.workspace import SYNC_COPIES
from lorelog.services.records.keyring import short_fingerprint, sign_bytes
from lorelog.services.sessions.capture import index_journals
from lorelog.services.sync.exchange import Exchange, SyncFolder, SyncSettings, absolute_remote, project_name
from lorelog.services.sync.exchange_plan import find_writers
from lorelog.services.sync.syncer import SyncDeps, Syncer, SyncReport, failed_report

OPERATIONS = OperationFamily()
_INDEX_WAIT_S = 10.0
_METAVARS = {"accept_writer": "ID", "branch": "NAME", "shared_name": "NAME", "user": "NAME"}
Remote = Annotated[str, about("Address of a Git remote, or the name of an exchange.", max_length=2000)]


class SyncRequest(OperationRequest, frozen=True, kw_only=True):
    """The exchange to run, or to set up."""

    remote: Remote = ""
    name: Annotated[str, about("New exchange: its name here.", max_length=64)] = ""
    branch: Annotated[str, about("New exchange: its branch; lorelog if not given.", max_length=200)] = ""
    team: Annotated[bool, about("New exchange: other people use it, too.")] = False
    shared_name: Annotated[
        str, about("Name of this project on all machines, if it has no Git remote.", max_length=200)
    ] = ""
    with_global: Annotated[bool, about("Also exchange global memories from now on.")] = False
    user: Annotated[str, about("Your name, as others see it (records.writer).", max_length=200)] = ""
    accept_writer: Annotated[
        Sequence[str], about("Writers of a personal exchange that are machines of yours: id or fingerprint.")
    ] = []
    dry_run: Annotated[bool, about("Report what would be exchanged, and change nothing.")] = False
    remove: Annotated[bool, about("Remove this exchange from this machine; nothing else changes.")] = False


class SyncStatusRequest(OperationRequest, frozen=True, kw_only=True):
    """The exchange to describe, and a memory whose writer is looked up in it."""

    remote: Remote = ""
    who: Annotated[str, about("Id of a memory or record: who wrote it?", max_length=200)] = ""


class SyncReply(OperationReply, frozen=True, kw_only=True):
    """What each exchange did, or would do."""

    exchanges: tuple[SyncReport, ...]
    removed: str


class SyncSettingsJson(OperationReply, frozen=True, kw_only=True):
    """An exchange of this machine."""

    name: str
    url: str
    branch: str
    team: bool
    projects: dict[str, str]
    """Directories of the exchanged projects, and their names on all machines."""
    waiting: int
    """Entries that were written or edited since the last exchange."""
    last: str
    """Time of the last complete exchange; empty if there was none."""


class SyncStatusReply(OperationReply, frozen=True, kw_only=True):
    """The exchanges of this machine."""

    writer: str
    """Id of this machine in them."""
    fingerprint: str
    """Fingerprint of this machine's key, which your other machines ask you to compare."""
    exchanges: tuple[SyncSettingsJson, ...]
    written_by: str
    """The user who wrote the memory that was asked for; empty if it is not known."""


@OPERATIONS.declare(
    "sync.exchange",
    ShellCommand("sync", options={"shared_name": "--as"}, hidden=("remote",), metavars=_METAVARS),
    errors=(NotFound, StoreDamaged, StoreUnreachable),
    writes=True,
    needs="send",
)
def run(engine: Engine, request: SyncRequest, call: RequestContext) -> SyncReply:
    """Exchange memories, records and their state with your other machines, over a Git remote of yours.

    The first call with a remote chooses this project. Later calls exchange all chosen projects. What was forgotten on one
    machine is forgotten on all. A text with a secret stops the push and is named. Offline, nothing is lost: the next call
    sends what waits.
    """
    engine.place.create()
    folder = SyncFolder(engine.place.tenant_folder)
    if request.remote:
        request = structs.replace(request, remote=absolute_remote(request.remote, call.directory))
    with folder.locked():  # before the settings are read: a sync that has just finished changed them
        if request.remove:
            settings = _find(folder, request.remote)
            if not request.dry_run:
                folder.remove(settings)
                shutil.rmtree(_copy_folder(engine, settings), ignore_errors=True)
            return SyncReply(exchanges=(), removed=settings.name)
        chosen = [_choose(engine, folder, request)] if request.remote else folder.all()
        if not chosen:
            raise UsageError(
                "no exchange is set up",
                hint="lorelog sync git@host:me/memory.git, in a project; 'lorelog docs sync' explains it",
            )
        if len(chosen) == 1:
            return SyncReply(exchanges=(_exchange(engine, folder, chosen[0], request, call),), removed="")
        reports = []
        for settings in chosen:
            try:
                reports.append(_exchange(engine, folder, settings, request, call))
            except LorelogError as error:  # the other exchanges are not concerned
                reports.append(failed_report(settings, f"{error.message}; {error.hint}", dry_run=request.dry_run))
        return SyncReply(exchanges=tuple(reports), removed="")


def _exchange(
    engine: Engine, folder: SyncFolder, settings: SyncSettings, request: SyncRequest, call: RequestContext
) -> SyncReport:
    """Run one exchange. One that is new and fails is not kept."""
    before = folder.find(settings.name)
    if not request.dry_run and before != settings:
        folder.write(settings)
    try:
        report = Syncer(_deps(engine, call, request), settings).run(dry_run=request.dry_run)
        if before is None and report.is_offline:  # an address that was never reached may be mistyped
            raise StoreUnreachable(
                f"no exchange was set up: {report.reason}",
                hint="check the address and your access with 'git ls-remote', then run the command again",
            )
    except LorelogError:
        if before is None and not request.dry_run:
            folder.remove(settings)
        raise
    return report


def _copy_folder(engine: Engine, settings: SyncSettings) -> Path:
    return engine.place.cache_folder / SYNC_COPIES / f"{settings.name}.git"


@OPERATIONS.declare("sync.status", errors=(NotFound, StoreDamaged, StoreUnreachable), needs="send")
def status(engine: Engine, request: SyncStatusRequest, call: RequestContext) -> SyncStatusReply:
    """Show the exchanges of this machine, their projects and what waits; and who wrote a memory. Only `who` uses the network."""
    folder = SyncFolder(engine.place.tenant_folder)
    chosen = [_find(folder, absolute_remote(request.remote, call.directory))] if request.remote else folder.all()
    written_by = ""
    memory = _memory_id(engine, request.who)
    for settings in chosen if request.who else ():
        exchange = Exchange(_copy_folder(engine, settings), settings.url, settings.branch)
        written_by = written_by or find_writers(exchange.fetch().files).get(memory, "")
    if request.who and not written_by:
        if not chosen:
            raise UsageError("no exchange is set up", hint="'lorelog docs sync' explains how to set one up")
        raise NotFound(
            f"no exchange says who wrote {request.who!r}",
            hint="give the id of a memory that 'lorelog search' shows, or the whole id of a record; it must have been synced",
        )
    return SyncStatusReply(
        writer=folder.writer() if chosen else "",
        fingerprint=short_fingerprint(sign_bytes(folder.key(), b"")[0]) if chosen else "",
        exchanges=tuple(
            reply_from(settings, SyncSettingsJson, waiting=Syncer(_deps(engine, call), settings).waiting())
            for settings in chosen
        ),
        written_by=written_by,
    )


def _memory_id(engine: Engine, identity: str) -> str:
    """Return the memory's own id for an id that a search shows, which differs between machines. Other texts are kept."""
    if not identity:
        return ""
    try:
        stored = find_memory(identity, engine.store)
    except NotFound:
        return identity
    return (stored.chunk.anchor.memory if stored.chunk.anchor else "") or identity


def _find(folder: SyncFolder, remote: str) -> SyncSettings:
    found = folder.find(remote)
    if found is None:
        raise NotFound(f"there is no exchange {remote!r}", hint="'lorelog sync --status' lists them")
    return found


def _choose(engine: Engine, folder: SyncFolder, request: SyncRequest) -> SyncSettings:
    """Return the settings of the named exchange, with this project among its projects."""
    settings = folder.find(request.remote, request.branch)
    if settings is None:
        known = folder.find(request.remote)
        if known is not None and request.remote == known.name:
            raise UsageError(
                f"{known.name} uses the branch {known.branch}",
                hint=f"for another exchange, give the address: lorelog sync {known.url} --branch {request.branch}",
            )
        settings = folder.add(request.remote, name=request.name, team=request.team, branch=request.branch)
    elif request.name not in ("", settings.name):
        raise UsageError(
            f"{settings.url} is exchanged under the name {settings.name}",
            hint=f"to rename it, remove it first: lorelog sync {settings.name} --remove",
        )
    elif request.team and not settings.team:
        raise UsageError(
            f"{settings.name} is a personal exchange",
            hint="a team needs an exchange of its own: give another REMOTE or --branch",
        )
    if request.with_global:
        if settings.team:
            raise UsageError(
                "a team does not exchange global memories", hint="they are your own, for all your projects"
            )
        settings.projects[GLOBAL_PROJECT] = project_name(GLOBAL_PROJECT)
    project = engine.place.project.id
    if project not in settings.projects and (engine.place.project.git or request.shared_name or not settings.projects):
        name = project_name(project, request.shared_name)
        other = next((path for path, known in settings.projects.items() if known == name), "")
        if other and not Path(other).is_dir():  # it was moved here
            del settings.projects[other]
        elif other:
            raise UsageError(
                f"{other} is exchanged under the name of this project ({name})", hint="sync one clone of it"
            )
        settings.projects[project] = name
    return settings


def _deps(engine: Engine, call: RequestContext, request: SyncRequest | None = None) -> SyncDeps:
    def check_guard(event: Mapping[str, Any]) -> str:
        try:
            draft = convert({name: event[name] for name in GuardDraft.__struct_fields__ if name in event}, GuardDraft)
            check_new_guard(engine, draft, event["by"], call)
        except (LorelogError, ValidationError) as error:
            return str(error)
        return ""

    def refresh() -> None:
        guards = GuardLog(engine.place.tenant_folder / "guards.jsonl")
        if guards.path.exists():
            guards.refresh_snapshot()
        engine.refresh_delivery()

    login = ""
    with suppress(OSError, KeyError):
        login = getuser()
    return SyncDeps(
        workspace=engine.place,
        user=(request.user if request is not None else "") or engine.records().agent or login,
        index=lambda paths, root: _index(engine, paths, root),
        forget=lambda names: _forget(engine, names),
        chunks_at=lambda source, first, last: [
            stored.id for stored in engine.store.chunks_of(source) if first <= stored.chunk.start_line <= last
        ],
        refresh=refresh,
        patterns=tuple(engine.defaults.capture.patterns),
        check_guard=check_guard,
        accept=request.accept_writer if request is not None else (),
    )


def _index(engine: Engine, paths: Sequence[Path], root: Root) -> list[str]:
    """Index journals, and hide the memories that were deleted elsewhere: they may be in files that did not change."""
    context = engine.capture_context()
    notes = index_journals(paths, root, context)
    tombstones = context.job((root,)).tombstones
    try:
        if tombstones is not None and not is_in_sync(context.store, tombstones):
            with context.store.writer(wait_s=_INDEX_WAIT_S) as writer:
                apply_missed_deletions(context.store, writer, tombstones)
    except StoreError as error:
        notes.append(f"deletions are not applied to the index yet: {error.message}")
    return notes


def _forget(engine: Engine, names: Sequence[str]) -> list[str]:
    """Forget memories and records; return what did not work. One that is not indexed is erased from its journal later."""
    problems: list[str] = []
    for name in names:
        try:
            reply = engine.forgetter().forget(ForgetQuery(ids=(name,), projects=None), edit_files=True)
        except NotFound:
            continue
        except LorelogError as error:
            problems.append(f"{name} was forgotten elsewhere, but stays here: {error.message}")
            continue
        problems += [f"forgotten text is left in {residue.path}" for residue in reply.residues]
    return problems
