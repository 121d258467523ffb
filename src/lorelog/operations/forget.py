"""Operations that erase text permanently: `memory.forget` and the check of its receipts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from lorelog.core.errors import NotFound, UsageError
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import EmptyRequest, OperationRequest, Since, Text, Until, Words, about, parse_past_day
from lorelog.services.forget.entries import ForgetQuery
from lorelog.services.forget.forgetter import ForgetReply

OPERATIONS = OperationFamily()


class ForgetRequest(OperationRequest, frozen=True, kw_only=True):
    """What to forget: ids, or everything that meets all given conditions."""

    ids: Annotated[Words, about("Ids of memories, chunks or records, or their first characters.")] = []
    match: Annotated[Text, about("Entries that contain this text, in any case.")] = ""
    session: Annotated[str, about("Entries that were captured from this session.", max_length=200)] = ""
    since: Since = None
    until: Until = None
    all_projects: Annotated[bool, about("Conditions apply to every project, not only to this one.")] = False
    dry_run: Annotated[bool, about("Show what would be erased, and change nothing.")] = False
    confirm: Annotated[bool, about("Required unless dry_run: there is no way back.")] = False
    edit_files: Annotated[
        bool, about("Also edit notes outside the journals, and files that came with the repository.")
    ] = False
    host_transcripts: Annotated[
        bool, about("Also delete the hosts' own conversations that it was captured from, whole files.")
    ] = False
    complete: Annotated[bool, about("Complete interrupted forgets, and forget nothing else.")] = False
    receipt: Annotated[
        str,
        about("With host_transcripts: delete those that this receipt names, and forget nothing else.", max_length=4096),
    ] = ""


class VerifyForgetRequest(OperationRequest, frozen=True):
    """The receipt to check."""

    receipt: Annotated[
        str, about("A receipt's id, its first characters, its path, or `last`.", min_length=1, max_length=4096)
    ] = "last"


class ForgetReceipt(OperationReply, frozen=True, kw_only=True):
    """A receipt of forgotten text."""

    id: str
    at: str
    ok: bool
    selected: Mapping[str, int]
    searched_files: int


class ReceiptsReply(ReplyItems[ForgetReceipt], OperationReply, frozen=True, kw_only=True):
    """Receipts of forgotten text, newest first."""

    receipts: tuple[ForgetReceipt, ...]


@OPERATIONS.declare(
    "memory.forget",
    ShellCommand(
        "forget",
        ("ids",),
        hidden=("confirm", "receipt"),
        helps={"match": "entries that contain this text, in any case ('-': from standard input)"},
    ),
    errors=(NotFound,),
    writes=True,
    once=True,
    needs="forget",
)
def forget(engine: Engine, request: ForgetRequest, call: RequestContext) -> ForgetReply:
    """Erase text from every file of lorelog permanently, and verify that it is gone.

    Removes the entry from its journal or note, and from index, vectors, summaries, traces, feedback, logs and caches;
    ledger records keep their chain with the text replaced by its hash. Then all files are searched for the text, and a
    receipt tells how many hold it. Conversations of hosts
    are deleted only on request; Git history is named, not changed.
    """
    if request.complete:
        replies = engine.forgetter().complete()
        return replies[-1] if replies else ForgetReply(dry_run=False, notes=("no forget was interrupted",))
    query = ForgetQuery(
        ids=tuple(request.ids),
        match=request.match,
        session=request.session,
        since=parse_past_day(request.since),
        until=parse_past_day(request.until),
        projects=None if request.all_projects else (),
        receipt=request.receipt if request.host_transcripts else "",
    )
    query.check()
    if request.dry_run:
        return engine.forgetter().preview(
            query, edit_files=request.edit_files, host_transcripts=request.host_transcripts
        )
    if not request.confirm:
        raise UsageError("there is no way back from forgetting", hint="set confirm, or dry_run to see what would go")
    engine.place.create()
    return engine.forgetter().forget(query, edit_files=request.edit_files, host_transcripts=request.host_transcripts)


@OPERATIONS.declare("memory.forget_verify", errors=(NotFound,), needs="receipts")
def verify_forget(engine: Engine, request: VerifyForgetRequest, call: RequestContext) -> ForgetReply:
    """Search again for text that was forgotten, by its receipt.

    Do so after a sync, a restored backup or a `git pull`: they may bring files back.
    """
    return engine.forgetter().verify(request.receipt)


@OPERATIONS.declare("memory.forget_receipts", needs="receipts")
def list_receipts(engine: Engine, request: EmptyRequest, call: RequestContext) -> ReceiptsReply:
    """List the receipts of forgotten text, newest first."""
    receipts = engine.forgetter().receipts()
    return ReceiptsReply(
        receipts=tuple(reply_from(receipt, ForgetReceipt, searched_files=receipt.files) for receipt in receipts)
    )
