"""Operations on what waits for somebody's word: statements of the user, proposals of agents, guards: `review.*`.

An agent's change of a memory of the user's own is a call that is not made: its operation and arguments are a line of `review.jsonl`.
Approving it makes the call as the person; refusing it is remembered, so that nobody is asked twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct, convert, to_builtins
from msgspec.structs import replace

from lorelog.core.document import StoredChunk
from lorelog.core.errors import ModelUnavailable, NotFound, Proposed, StoreBusy, UsageError
from lorelog.core.ids import blake2b
from lorelog.core.policy import USERS_ORIGINS, Caller, Permission
from lorelog.core.processes import FileLock
from lorelog.core.serializable import ReplyItems, utc_now
from lorelog.engine import Engine
from lorelog.light.delivery_files import RULE_TYPES, DeliveryFiles, project_key, read_standing, read_start, text_key
from lorelog.operations.operation import Operation, OperationFamily, OperationReply, RequestContext, ShellCommand
from lorelog.operations.requests import Name, NonEmptyId, OperationRequest, ScopedRequest, Text, Words, about
from lorelog.services.places.workspace import visible_projects
from lorelog.services.review.filing import CLOSED, FILED, PERSON, REFUSED, WAITING, Label, ReviewEntry, ReviewLog
from lorelog.services.review.reviewer import JudgeState, ReviewReport, tokens_per_statement
from lorelog.services.standing.inbox import Inbox, InboxItem
from lorelog.services.standing.memories import plain_text, read_words, replace_if_changed

if TYPE_CHECKING:
    from lorelog.services.review.statements import Statement

OPERATIONS = OperationFamily()
STATEMENT, PROPOSAL, GUARD, RESTING = "statement", "proposal", "guard", "rest"
_MAX_STATEMENTS = 1_000
_WISHES = {
    "memory.supersede": "replace what you said by this",
    "memory.edit": "edit it to say this",
    "memory.delete": "hide it",
    "memory.restore": "show it again",
}
_MAX_CHANGED_CHARS, _MAX_SAME, _MAX_BALANCES_BYTES = 400, 5, 10_000_000
_LOCK_WAIT_S = 60.0
"""Two reviews at once would pay for the same statements."""
_Kind = Literal["statement", "proposal", "rule", "summary", "import", "guard", "rest"]


class ReviewListRequest(ScopedRequest, frozen=True, kw_only=True):
    """Which items to list."""

    kind: Annotated[Literal["", _Kind], about("Only this kind.")] = ""
    limit: Annotated[int, about("Maximum number of items, newest first.", ge=1, le=_MAX_STATEMENTS)] = 200


class ItemVerdict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A verdict about one item."""

    id: NonEmptyId
    kind: Annotated[_Kind, about("Its kind, as review.list lists it.")] = "statement"
    label: Annotated[
        Label | Literal["approve", "refuse"], about("What a statement is; of everything else, approve or refuse.")
    ]
    text: Annotated[Text, about("The rule in your words; as it was said or proposed if not given.")] = ""
    action: Annotated[
        Literal["", "warn", "block"], about("What a guard shall do; as it was proposed if not given.")
    ] = ""
    cues: Annotated[Words, about("When a rule matters: KIND=VALUE.")] = ()
    everywhere: Annotated[bool, about("The rule holds in all projects.")] = False
    forbids: Annotated[bool, about("The rule forbids the commands, or changes of the paths, of its cues.")] = False
    same: Annotated[Name, about("Id of a standing rule that says the same.")] = ""
    replaces: Annotated[Words, about("Ids of standing rules that it replaces.")] = ()


class ReviewDecideRequest(OperationRequest, frozen=True, kw_only=True):
    """Verdicts about items."""

    verdicts: Annotated[
        Annotated[Sequence[ItemVerdict], Meta(min_length=1, max_length=_MAX_STATEMENTS)], about("One for each item.")
    ]


class ReviewRunRequest(OperationRequest, frozen=True, kw_only=True):
    """Who judges how much of this project."""

    judge: Annotated[
        Name, about("Provider, or PROVIDER/MODEL, instead of the setting review.judge.", extra={"metavar": "NAME"})
    ] = ""
    limit: Annotated[int, about("Maximum number of statements, newest first.", ge=1, le=_MAX_STATEMENTS)] = 200


class ReviewListReply(ReplyItems[InboxItem], OperationReply, frozen=True, kw_only=True):
    """Items that wait, newest first."""

    items: tuple[InboxItem, ...]
    total_count: int
    counts: dict[str, int]
    """How many items there are of each kind."""
    judge: JudgeState
    guide: str = ""
    """How an agent files statements; empty for a person, and for other kinds."""


class ItemDecision(OperationReply, frozen=True, kw_only=True):
    """What became of an item: `result` is the id of the new memory, of the deleted one, or of the guard."""

    id: str
    kind: str
    outcome: str
    result: str
    notes: tuple[str, ...]


class ReviewDecideReply(ReplyItems[ItemDecision], OperationReply, frozen=True, kw_only=True):
    """What became of the items."""

    decisions: tuple[ItemDecision, ...]


@OPERATIONS.declare("review.list", ShellCommand("review list"))
def list_items(engine: Engine, request: ReviewListRequest, call: RequestContext) -> ReviewListReply:
    """List what waits for somebody's word, newest first.

    What you said in conversations and nobody has filed yet, rules that a judge or an agent proposes, summaries, text from imports
    and repositories, guards of agents, guards that your rules suggest, and rules that nobody broke for long.
    """
    projects = engine.log_projects(all_projects=request.all_projects)
    items, state, counts = count_inbox(engine, call.environment, all_projects=request.all_projects)
    guide: list[str] = []
    if request.kind in ("", STATEMENT):
        reviewer = engine.reviewer(call.environment, all_projects=request.all_projects)
        items += _statement_items(reviewer.statements(projects, request.limit))
        if call.agent and request.kind:
            from lorelog.services.review.judge import AGENT_GUIDE

            guide = [AGENT_GUIDE, *(f"{rule.id}: {rule.text}" for rule in reviewer.rules())]
    wanted = [item for item in items if not request.kind or item.kind == request.kind]
    wanted.sort(key=lambda item: item.date, reverse=True)
    return ReviewListReply(
        items=tuple(wanted[: request.limit]),
        total_count=counts[request.kind] if request.kind else counts.total(),
        counts=counts,
        judge=state,
        guide="\n".join(guide),
    )


def count_inbox(
    engine: Engine, environment: Mapping[str, str], *, all_projects: bool = False
) -> tuple[list[InboxItem], JudgeState, Counter[str]]:
    """Return what waits but for statements, the state of the judge, and how many items there are of each kind.

    The number of a project's items is also written to a file, for status lines.
    """
    projects, today = engine.log_projects(all_projects=all_projects), datetime.now().astimezone().date()
    items = [
        *map(_proposal_item, ReviewLog(engine.place.tenant_folder).waiting()),
        *_guard_items(engine, all_projects=all_projects),
        *_inbox(engine).items(projects, today),
    ]
    state = engine.judge_state(environment, projects)
    counts = Counter({STATEMENT: state.open}) + Counter(item.kind for item in items)
    if not all_projects:
        file = DeliveryFiles(str(engine.place.tenant_folder), engine.place.project.id).inbox
        with suppress(OSError):
            replace_if_changed(Path(file), str(counts.total()).encode())
    return items, state, counts


@OPERATIONS.declare(
    "review.decide",
    ShellCommand("review decide", hidden=("verdicts",)),
    errors=(NotFound,),
    writes=True,
    once=True,
    needs="file",
)
def decide_items(engine: Engine, request: ReviewDecideRequest, call: RequestContext) -> ReviewDecideReply:
    """File statements, and approve or refuse what was proposed; `text` may word a rule differently.

    A rule is written as your own memory. A guard is switched on or removed. A resting rule is shown only when a call or a prompt is
    about it, or, refused, as before. A summary, and imported text that is not a rule, leaves the
    list and stays as it is; refused, it is deleted, which can be undone. An agent may file statements if you ask it to: its
    verdicts are checked like those of a judge. Everything else is decided by a person.
    """
    if any(verdict.kind != STATEMENT for verdict in request.verdicts):
        call.check("approve")
    said = [verdict for verdict in request.verdicts if verdict.kind == STATEMENT]
    decisions = [*_file_statements(engine, said, call)] if said else []
    decisions += [_decide_one(engine, verdict, call) for verdict in request.verdicts if verdict.kind != STATEMENT]
    count_inbox(engine, call.environment)
    return ReviewDecideReply(decisions=tuple(decisions))


@OPERATIONS.declare(
    "review.run", ShellCommand("review run"), errors=(ModelUnavailable,), writes=True, once=True, needs="file"
)
def run_review(engine: Engine, request: ReviewRunRequest, call: RequestContext) -> ReviewReport:
    """Ask the judge to file what you said: the language model that you allowed by `review.judge`.

    `host` is the agent to which most of it was said, if its program is found, else the first that is. Statements of this project are sent
    redacted, newest first, within the daily limit of tokens. What it cannot decide stays open, and is sent again only if you name a judge.
    `left` and `left_tokens` say what waits, and about what that needs.
    """
    if request.judge or "LORELOG_REVIEW_JUDGE" in call.environment:
        call.check("choose_judge")
    from lorelog.services.review.judge import Judge

    reviewer, projects = engine.reviewer(call.environment), visible_projects(engine.place.project, ())
    busy = StoreBusy("another review is running", hint="try again when it has ended")
    engine.place.cache_folder.mkdir(mode=0o700, exist_ok=True)  # there may be no memory yet
    with call.yield_write_slot(), FileLock(engine.place.cache_folder / "review.lock", busy, _LOCK_WAIT_S):
        statements = reviewer.statements(projects, request.limit, unasked=not request.judge)
        said_to = [host for host, _ in Counter(statement.host for statement in statements).most_common()]
        model = engine.judge(request.judge, said_to)
        if model is None:
            raise UsageError(
                "no language model may judge", hint="lorelog config set review.judge host, or file them: lorelog review"
            )
        report = reviewer.run(Judge(model.ask, model.fits), model.model, statements, call.progress)
        left = reviewer.count_open(projects, unasked=True).total()
    return replace(report, left=left, left_tokens=left * tokens_per_statement(reviewer.runs()))


def _guard_items(engine: Engine, *, all_projects: bool) -> list[InboxItem]:
    """Return guards that wait, and rules that rest. Where there can be none, nothing is imported for it: every `status` asks."""
    place = engine.place
    files = DeliveryFiles(str(place.tenant_folder), place.project.id)
    balances = str(place.cache_folder / "delivery" / f"{project_key(place.project.id)}.rules")
    has_cues = any(rule.get("cues") and rule.get("type") in RULE_TYPES for rule in read_standing(files.standing))
    rests = b'"rests":true' in read_start(balances, _MAX_BALANCES_BYTES)
    if not (has_cues or rests or Path(files.guards).exists()):
        return []
    from lorelog.operations.guard import guard_items, resting_items

    return [*guard_items(engine, all_projects=all_projects), *resting_items(engine)]


def _statement_items(statements: Sequence[Statement]) -> Iterator[InboxItem]:
    sessions: dict[str, set[str]] = defaultdict(set)
    for said in statements:
        sessions[text_key(said.text)].add(said.session)
    for said in statements:
        yield InboxItem(
            id=said.id,
            kind=STATEMENT,
            type=said.channel,
            text=said.text,
            about=said.before,
            date=said.date,
            project=said.project,
            session=said.session,
            sessions=len(sessions[text_key(said.text)]),
            becomes_rule=True,
        )


def _proposal_item(entry: ReviewEntry) -> InboxItem:
    changes = entry.arguments
    return InboxItem(
        id=entry.statement,
        kind=PROPOSAL,
        type=entry.label,
        text=entry.wording,
        about=entry.reason if changes else f"{entry.explain()}: “{entry.words}”; it waits because {entry.reason}",
        origin="agent" if changes else "user",
        date=entry.at,
        project=changes.get("project", ""),
        sessions=len({source.session for source in entry.sources}) or 1,
        becomes_rule=not changes or "text" in changes,
        conditions=", ".join(entry.cues),
    )


def _file_statements(engine: Engine, verdicts: Sequence[ItemVerdict], call: RequestContext) -> list[ItemDecision]:
    from lorelog.services.cues.cue import parse_cues
    from lorelog.services.review.judge import Verdict, check_verdict

    reviewer = engine.reviewer(call.environment)
    wanted = {verdict.id: verdict for verdict in verdicts}
    statements = {said.id: said for said in reviewer.statements(None, len(wanted), wanted)}
    missing = next((verdict.id for verdict in verdicts if verdict.id not in statements), "")
    if missing:
        raise NotFound(
            f"there is no open statement {missing[:100]!r}", hint="'lorelog review list' lists the open ones"
        )
    rules = reviewer.rules()
    judged = {}
    for identity, verdict in wanted.items():
        numbers = {rule.id: number for number, rule in enumerate(rules, 1)}
        known = Verdict(
            n=1,
            label={"approve": "rule", "refuse": "other"}.get(verdict.label, verdict.label),  # type: ignore[arg-type]
            wording=verdict.text or statements[identity].text,
            cues=parse_cues(verdict.cues),
            everywhere=verdict.everywhere,
            forbids=verdict.forbids,
            same=tuple(numbers[rule] for rule in [verdict.same] if rule in numbers),
            replaces=tuple(numbers[rule] for rule in verdict.replaces if rule in numbers),
        )
        checked = check_verdict(known, statements[identity], len(rules)) if call.agent else known
        if checked is not None:
            judged[identity] = checked
    entries = reviewer.filing(call.agent or PERSON).file(list(statements.values()), judged, rules)
    reviewer.note_waiting()
    return [
        ItemDecision(id=entry.statement, kind=STATEMENT, outcome=entry.outcome, result=entry.memory, notes=())
        for entry in entries
    ]


def _decide_one(engine: Engine, verdict: ItemVerdict, call: RequestContext) -> ItemDecision:
    """Approve or refuse a proposal, a guard, or a memory that is not the user's own."""
    from lorelog.core.memory import NewMemory
    from lorelog.operations.guard import GuardEnableRequest, enable_guard, refuse_guard

    is_approved = verdict.label == "approve"
    if verdict.label not in ("approve", "refuse"):
        raise UsageError(f"a {verdict.kind} cannot be filed as {verdict.label}", hint="use approve or refuse")
    if verdict.kind == PROPOSAL:
        return _decide_proposal(engine, verdict, call)
    if verdict.kind == GUARD and is_approved:
        enabled = enable_guard(engine, GuardEnableRequest(id=verdict.id, action=verdict.action), call)
        return _decision(verdict, enabled.guard.id, enabled.notes)
    if verdict.kind == GUARD:
        return _decision(verdict, refuse_guard(engine, verdict.id))
    lifecycle, (item, said) = engine.lifecycle(), (None, "") if verdict.kind == RESTING else _find_item(engine, verdict)
    if item and (item.before or (is_approved and item.becomes_rule)):
        text = (verdict.text.strip() or item.text) if is_approved else item.before
        text = f"- {text}\n- About: {said}" if item.before and said else text
        added = lifecycle.supersede(item.id, NewMemory(text, item.type, origin="user"))
        return _decision(verdict, added.memory, added.notes)
    if item and not is_approved and item.deletes:
        engine.memories().delete(item.id)
        return _decision(verdict, item.id)
    lifecycle.mark_reviewed(verdict.id, cue_only=is_approved and item is None)
    return _decision(verdict)


def _decide_proposal(engine: Engine, verdict: ItemVerdict, call: RequestContext) -> ItemDecision:
    from lorelog.services.cues.cue import parse_cues

    reviewer = engine.reviewer(call.environment)
    entry = next((entry for entry in reviewer.log.waiting() if entry.statement == verdict.id), None)
    if entry is None:
        raise _no_item(verdict)
    memory, is_approved = "", verdict.label == "approve"
    if entry.arguments:
        memory = make_change(engine, entry, verdict.text.strip(), call) if is_approved else ""
    elif is_approved:
        approved = replace(entry, judge=PERSON, cues=parse_cues(verdict.cues) or entry.cues)
        added = engine.memories().add([approved.new_memory(verdict.text.strip())], to_global=entry.everywhere)
        memory = added[0].memory
    done = CLOSED if entry.arguments else FILED
    reviewer.log.add([replace(entry, judge=PERSON, outcome=done if is_approved else REFUSED, memory=memory)])
    return _decision(verdict, memory)


def _decision(verdict: ItemVerdict, result: str = "", notes: Sequence[str] = ()) -> ItemDecision:
    outcome = "approved" if verdict.label == "approve" else "refused"
    return ItemDecision(id=verdict.id, kind=verdict.kind, outcome=outcome, result=result, notes=tuple(notes))


def _inbox(engine: Engine) -> Inbox:
    files = DeliveryFiles(str(engine.place.tenant_folder), engine.place.project.id)
    edited = {rule["id"]: rule["text"] for rule in read_standing(files.standing) if rule.get("edited")}
    return Inbox(store=engine.store, ownership=engine.ownership(), lifecycle=engine.lifecycle_index(), edited=edited)


def _find_item(engine: Engine, verdict: ItemVerdict) -> tuple[InboxItem, str]:
    """Return what waits, and when and how it was said, if it was filed."""
    stored = engine.memories().get(verdict.id).memory
    item = None if stored is None else _inbox(engine).item_of(stored)
    if stored is None or item is None or item.kind != verdict.kind:
        raise _no_item(verdict)
    return item, read_words(stored.chunk)[1]


def _no_item(verdict: ItemVerdict) -> NotFound:
    return NotFound(f"no {verdict.kind} {verdict.id[:100]!r} waits", hint="'lorelog review list' lists what waits")


def propose_change(
    engine: Engine, operation: Operation[Any, Any], request: OperationRequest, call: RequestContext
) -> None:
    """Keep a change of a memory of the user's own as a proposal, and raise Proposed; do nothing if the caller may make it."""
    if getattr(request, "keep_secrets", False):
        call.check("keep_secrets")
    identity: str = getattr(request, "id", "")
    found = engine.memories().get(identity)
    memory = found.memory
    if memory is None and not found.deleted_at:
        raise NotFound(f"no memory has an id that starts with {identity!r}", hint="'lorelog search' shows ids")
    of_users = memory is not None and _is_users(engine, memory)
    if operation.right.permission(call.caller, of_users=of_users) is Permission.YES:
        return
    given = {
        name: engine.redact(value) if isinstance(value, str) else value
        for name, value in to_builtins(request).items()
        if name not in ("project", "tenant", "origin", "keep_secrets")
    }
    given["id"] = identity if memory is None else memory.chunk.memory or memory.id
    before = plain_text(read_words(memory.chunk)[0])[:_MAX_CHANGED_CHARS] if memory is not None else identity
    days = ", ".join(f"{name} {value}" for name, value in given.items() if name in ("expires", "review_after"))
    wish = _WISHES.get(operation.name, f"set its dates: {days or 'none'}")
    engine.place.create()
    entry = ReviewEntry(
        at=utc_now(),
        statement="p-" + blake2b(repr((operation.name, given)).encode(), digest_size=8).hexdigest(),
        label=operation.name,
        judge=call.agent,
        outcome=WAITING,
        wording=given.get("text") or before,
        reason=f"{call.agent} wants to {wish}: “{before}”",
        arguments=given | {"project": engine.place.project.id},
    )
    log = ReviewLog(engine.place.tenant_folder)
    known = log.entries().get(entry.statement)
    if known is not None and known.outcome == REFUSED:
        raise Proposed(f"not done: a person refused this on {known.at[:10]}", hint="ask the user")
    if known is None or known.outcome != WAITING:
        log.add([entry])
    raise Proposed(
        f"not done, but proposed to the user as {entry.statement}: {call.agent} wants to {wish}",
        hint="it stays as it is until a person approves, with 'lorelog review' or in the page",
    )


def _is_users(engine: Engine, memory: StoredChunk) -> bool:
    """Return whether a memory, or another one with its id, is the user's own: a change of one is a change of all."""
    identity, ownership = memory.chunk.memory, engine.ownership()
    same = [stored for stored in engine.store.find(identity) if stored.chunk.memory == identity] if identity else []
    shown = (ownership.with_shown_anchor(stored, engine.store).chunk.anchor for stored in (memory, *same))
    return len(same) > _MAX_SAME or any((anchor.origin if anchor else "") in USERS_ORIGINS for anchor in shown)


def make_change(engine: Engine, entry: ReviewEntry, text: str, call: RequestContext) -> str:
    """Make the change that a person approved, as the person's; return the id of the new memory, if there is one."""
    operation: Operation[Any, Any] = call.find_operation(entry.label)
    given = entry.arguments | ({"text": text} if text and "text" in entry.arguments else {})
    request = convert(given, operation.request)
    reply = operation.handler(engine, request, replace(call, caller=Caller.TERMINAL, agent=""))
    return str(getattr(reply, "memory", ""))
