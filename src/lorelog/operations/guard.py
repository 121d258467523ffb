"""Operations on guards: `guard.*`.

Every surface offers all of them. The handlers limit agents (MCP, HTTP, and shells of agents): their guards only warn, and
they cannot change a guard that a person wrote or approved.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, structs

from lorelog.core.errors import NotFound, UsageError, nearest_name, plural
from lorelog.core.serializable import ReplyItems
from lorelog.engine import Engine
from lorelog.light.guard_check import BLOCK, PERSON, guard_notices
from lorelog.operations.operation import OperationFamily, OperationReply, RequestContext, ShellCommand, reply_from
from lorelog.operations.requests import OperationRequest, ScopedRequest, about
from lorelog.services.guards.guard_log import (
    Guard,
    GuardChange,
    GuardConditions,
    GuardDraft,
    GuardLog,
    check_draft,
    check_patterns,
    describe_conditions,
    guard_from_draft,
)
from lorelog.services.guards.replay import (
    ReplayHit,
    ReplayReport,
    check_share,
    format_hit,
    format_statement,
    format_verdict,
    replay,
)
from lorelog.services.standing.inbox import InboxItem
from lorelog.services.standing.rules import (
    REST_DAYS,
    GuardProposal,
    RuleBalance,
    check_rules,
    propose_guards,
    read_balances,
    read_instructions,
    save_balances,
)

OPERATIONS = OperationFamily()
_CONDITION_METAVARS = {"tool": "NAME", "paths": "PATTERN", "command": "PATTERN", "content": "PATTERN"}


_Pattern = Annotated[str, Meta(max_length=300)]
_Patterns = Annotated[Sequence[Annotated[str, Meta(min_length=1, max_length=300)]], Meta(max_length=20)]
_Id = Annotated[str, Meta(min_length=1, max_length=64)]


class GuardChangeRequest(OperationRequest, frozen=True):
    """A guard, and what becomes of it."""

    id: Annotated[_Id, about("Id of a guard, or its first characters.")]
    change: Annotated[
        Literal["disable", "dismiss", "remove"], about("Switch it off, report that it was wrong, or remove it.")
    ]


class RulesRequest(OperationRequest, frozen=True):
    """Which rule's calls to list."""

    id: Annotated[str, about("Id of a rule, or FILE:LINE, to list its calls.", max_length=300)] = ""
    limit: Annotated[int, about("Maximum number of calls, newest first.", ge=1, le=1000)] = 50


class GuardConditionsRequest(OperationRequest, frozen=True, kw_only=True):
    """Conditions of a guard. All that are given must hold."""

    tool: Annotated[
        _Pattern, about("Name of the host's tool, with wildcards, or one of the kinds edit, run, read.")
    ] = ""
    paths: Annotated[_Patterns, about("Patterns of files that a call writes: `migrations/**`, `*.ts`.")] = []
    command: Annotated[_Pattern, about("Pattern of a command: `npm *` matches `cd app && CI=1 npm install`.")] = ""
    content: Annotated[_Pattern, about("Pattern of a part of a line that a call writes.")] = ""


class GuardTestRequest(GuardConditionsRequest, frozen=True, kw_only=True):
    """A guard, a proposal, or conditions to replay."""

    id: Annotated[
        str, about("Id of a guard or of a proposal; without one, the conditions are replayed.", max_length=64)
    ] = ""
    all_projects: Annotated[bool, about("Replay over the calls of all projects.")] = False
    limit: Annotated[int, about("Maximum number of calls to return, newest first.", ge=0, le=1000)] = 20


class GuardAddRequest(GuardConditionsRequest, frozen=True, kw_only=True):
    """A guard to add."""

    message: Annotated[str, about("Text that the agent is shown; that of the memory if not given.", max_length=400)] = (
        ""
    )
    action: Annotated[
        Literal["warn", "block"], about("What it does when it is on. A guard of an agent can only warn.")
    ] = "warn"
    memory: Annotated[
        str, about("Id of the correction it comes from; it must be written on this machine.", max_length=64)
    ] = ""
    to_global: Annotated[bool, about("Apply to all projects.")] = False


class GuardEnableRequest(OperationRequest, frozen=True):
    """A guard to switch on."""

    id: Annotated[_Id, about("Id of a guard or of a proposal, or its first characters.")]
    action: Annotated[Literal["", "warn", "block"], about("What it shall do; as it was added if not given.")] = ""


class GuardListReply(ReplyItems[Guard], OperationReply, frozen=True, kw_only=True):
    """Guards, oldest first, and those that the user's rules suggest, newest rule first."""

    guards: tuple[Guard, ...]
    notices: tuple[str, ...]
    proposals: tuple[GuardProposal, ...]


class GuardHit(OperationReply, frozen=True, kw_only=True):
    """A past call that a guard or a rule matches, and what it shows of the rule."""

    at: str
    host: str
    session_id: str
    tool: str
    call: str
    corrected: bool
    why: str
    statement: str
    verdict: str


class RulesReply(ReplyItems[RuleBalance], OperationReply, frozen=True, kw_only=True):
    """Rules, most often broken first, and the calls of the one that was asked for."""

    rules: tuple[RuleBalance, ...]
    total: int
    calls: tuple[GuardHit, ...]
    notes: tuple[str, ...]


class GuardReplay(OperationReply, frozen=True, kw_only=True):
    """What a guard would have hit."""

    id: str
    verdict: str
    total: int
    hit_count: int
    corrected: int
    from_transcripts: int
    from_traces: int
    hits: tuple[GuardHit, ...]
    refused: str
    notes: tuple[str, ...]


class GuardEnableReply(GuardChange, frozen=True, kw_only=True):
    """A guard that was switched on, and what it would have hit."""

    replay: GuardReplay


@OPERATIONS.declare("guard.list", ShellCommand("guard list"))
def list_guards(engine: Engine, request: ScopedRequest, call: RequestContext) -> GuardListReply:
    """List the guards of this project and those of all projects, and those that your rules suggest.

    Notices are about guards that retired. A proposal is not switched on: `guard.enable` does that.
    """
    log, project = _open_log(engine), engine.place.project.id
    guards = log.all() if request.all_projects else log.visible(project)
    if guards:
        log.refresh_snapshot()  # it may have been deleted with the index
    today = datetime.now(UTC).date().isoformat()
    notices = tuple(guard_notices(str(log.path), project, today))
    return GuardListReply(guards=tuple(guards), notices=notices, proposals=tuple(_proposals(engine)))


@OPERATIONS.declare("guard.rules", ShellCommand("rules", ("id",)), errors=(NotFound,))
def list_rules(engine: Engine, request: RulesRequest, call: RequestContext) -> RulesReply:
    """Compare your rules, and the lines of CLAUDE.md and AGENTS.md, with all captured tool calls.

    A rule applies to the calls that have its commands, paths and events. A call breaks it if it has what the rule forbids, follows it if
    it runs a command that the rule says to use, and was corrected if you rejected or interrupted it, or stated the rule right afterwards. Nothing
    is guessed: lines that name neither a command nor a path in code are not checkable.
    """
    calls, notes = engine.past_calls(call.environment).calls(call.progress)
    rules = [rule for rule in engine.standing_rules() if rule.is_users]
    rules += read_instructions(engine.place.project.root)
    checked = check_rules(rules, calls, datetime.now().astimezone().date())
    balances = sorted((rule for rule, _ in checked), key=lambda rule: (-rule.broken, -rule.corrected, -rule.applies))
    save_balances(engine.place.cache_folder / "delivery", engine.place.project.id, balances)
    found = [(rule, hits) for rule, hits in checked if request.id and rule.id.startswith(request.id)]
    found = [pair for pair in found if pair[0].id == request.id] or found
    if request.id and len(found) != 1:
        verb = nearest_name(request.id, ["export"])
        hint = (
            f"did you mean 'lorelog rules {verb}'?"
            if verb
            else "'lorelog rules' lists them; 'lorelog rules export' writes those of a team"
        )
        raise NotFound(f"{request.id[:100]!r} is not one of the rules", hint=hint)
    shown = [hit for _, hits in found for hit in reversed(hits)][: request.limit]
    return RulesReply(
        rules=tuple(rule for rule, _ in found) or tuple(balances),
        total=len(calls),
        calls=tuple(_hit_reply(hit) for hit in shown),
        notes=notes,
    )


@OPERATIONS.declare("guard.test", ShellCommand("guard test", ("id",), metavars=_CONDITION_METAVARS), errors=(NotFound,))
def test_guard(engine: Engine, request: GuardTestRequest, call: RequestContext) -> GuardReplay:
    """Replay a guard over all captured tool calls, and show which it would have hit and which the user corrected."""
    conditions = _conditions(request)
    if bool(request.id) == (conditions != type(conditions)()):
        raise UsageError("give either the id of a guard or conditions", hint="lorelog guard test --command 'npm *'")
    if request.id:
        guard = _find_guard_or_proposal(engine, request.id)
    else:
        check_patterns(conditions)
        draft = GuardDraft(**structs.asdict(conditions), message="", project=engine.place.project.id)
        guard = guard_from_draft(draft, _author(call))
    report = _replay(engine, guard, call, all_projects=request.all_projects)
    return _replay_reply(guard, report, request.limit)


@OPERATIONS.declare(
    "guard.add",
    ShellCommand("guard add", hidden=("action",), metavars={**_CONDITION_METAVARS}),
    errors=(NotFound,),
    writes=True,
)
def add_guard(engine: Engine, request: GuardAddRequest, call: RequestContext) -> GuardChange:
    """Add a guard, switched off. Refused if it matches nearly every call. `guard.enable` switches it on.

    Only a guard that a person wrote or approved can block. A memory that came with a repository or an import cannot
    become a guard. Secrets in the message are redacted.
    """
    from lorelog.ingest.redaction.redact import redact

    message = " ".join(request.message.split())
    if request.memory:
        found = [memory for memory in engine.standing_rules() if memory.id.startswith(request.memory)]
        own_words = "write the guard without --memory, with a --message of your own"
        if len({memory.id for memory in found}) != 1:
            raise UsageError(
                f"{request.memory!r} is not one of the standing corrections and preferences", hint=own_words
            )
        if not found[0].is_users:
            raise UsageError(
                f"{request.memory!r} came with a repository, an import, a tool or an agent and cannot become a guard",
                hint=f"if you agree with it, {own_words}",
            )
        message = message or " ".join(found[0].text.split())[:400]
    if not message:
        raise UsageError("a guard needs a message: the text that the agent is shown", hint="--message TEXT")
    conditions, patterns = _conditions(request), engine.defaults.capture.patterns
    if call.agent and any(redact(pattern, patterns).kinds for pattern in conditions.patterns()):
        raise UsageError("a condition of the guard contains a secret", hint="use a pattern without its value")
    redaction = redact(message, patterns)
    draft = GuardDraft(
        **structs.asdict(conditions),
        message=redaction.text,
        action=request.action,
        memory=request.memory,
        project="" if request.to_global else engine.place.project.id,
    )
    by = _author(call)
    with call.yield_write_slot():
        check_new_guard(engine, draft, by, call)
    change = _add(engine, draft, by)
    if not redaction.kinds:
        return change
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(redaction.kinds.items()))
    return structs.replace(change, notes=(*change.notes, f"redacted before writing: {kinds}"))


@OPERATIONS.declare(
    "guard.enable", ShellCommand("guard enable", ("id",), hidden=("action",)), errors=(NotFound,), writes=True
)
def enable_guard(engine: Engine, request: GuardEnableRequest, call: RequestContext) -> GuardEnableReply:
    """Switch a guard or a proposal on, after a replay. Refused if it matches nearly every call.

    A person who switches a guard on approves it. An agent can switch on only guards of agents, which warn.
    """
    log, by = _open_log(engine), _author(call)
    guard = _find_guard_or_proposal(engine, request.id)
    if (request.action or guard.action) == BLOCK:
        call.check("guard")
    with call.yield_write_slot():
        report = _replay(engine, guard, call, all_projects=not guard.project)
    check_share(guard, report)
    if not guard.created:
        _add(engine, guard, guard.created_by if by == PERSON else by)
    change = log.enable(log.find(guard.id), by, request.action)
    return reply_from(change, GuardEnableReply, replay=_replay_reply(guard, report, 10))


@OPERATIONS.declare(
    "guard.change",
    ShellCommand("guard disable", ("id",), hidden=("change",), summary="switch a guard off; 'enable' switches it on"),
    ShellCommand("guard dismiss", ("id",), hidden=("change",), summary="report that a guard was wrong"),
    ShellCommand("guard remove", ("id",), hidden=("change",), summary="remove a guard"),
    errors=(NotFound,),
    writes=True,
    once=True,
)
def change_guard(engine: Engine, request: GuardChangeRequest, call: RequestContext) -> GuardChange:
    """Switch a guard off, report that it was wrong, or remove it.

    `guard.enable` switches it on again. The third dismissal retires it.
    """
    log = _open_log(engine)
    changes = {"disable": log.disable, "dismiss": log.dismiss, "remove": log.remove}
    return changes[request.change](log.find(request.id), _author(call))


def guard_items(engine: Engine, *, all_projects: bool) -> list[InboxItem]:
    """Return the guards that wait for a person: those of agents, and those that corrections suggest."""
    log, project = _open_log(engine), engine.place.project.id
    guards = log.all() if all_projects else log.visible(project)
    items = [
        _guard_item(guard, "agent", guard.message)
        for guard in guards
        if not guard.by_person and guard.state != "retired"
    ]
    balances = _saved_balances(engine)
    for proposal in _proposals(engine):
        item = _guard_item(proposal.as_guard(), "user", proposal.correction)
        rule = balances.get(proposal.memory)
        broken = (
            f"agents broke it {plural(rule.broken, 'time')}, last on {rule.last_broken[:10]}"
            if rule and rule.broken
            else ""
        )
        items.append(structs.replace(item, date=proposal.date, example=proposal.example, about=broken))
    return items


def resting_items(engine: Engine) -> list[InboxItem]:
    """Return the rules that nobody broke for long, as `guard.rules` found them last, and that no person has decided about."""
    standing, lifecycle = {rule.id: rule for rule in engine.standing_rules()}, engine.lifecycle_index()
    return [
        InboxItem(
            id=rule.id,
            kind="rest",
            type=standing[rule.id].type,
            text=rule.text,
            about=f"no agent broke it in {REST_DAYS} days",
            date=rule.since,
            project=standing[rule.id].project,
        )
        for rule in _saved_balances(engine).values()
        if rule.rests and rule.id in standing and not lifecycle.is_reviewed(rule.id)
    ]


def _saved_balances(engine: Engine) -> dict[str, RuleBalance]:
    return read_balances(engine.place.cache_folder / "delivery", engine.place.project.id)


def refuse_guard(engine: Engine, identity: str) -> str:
    """Remove a guard, or note that a proposal was refused; return its id."""
    guard = _find_guard_or_proposal(engine, identity)
    if not guard.created:
        _add(engine, guard, PERSON)
    log = _open_log(engine)
    log.remove(log.find(guard.id), PERSON)
    return guard.id


def _guard_item(guard: Guard, origin: str, text: str) -> InboxItem:
    return InboxItem(
        id=guard.id,
        kind="guard",
        type="guard",
        text=text,
        origin=origin,
        date=guard.created,
        project=guard.project,
        source=guard.memory,
        deletes=True,
        conditions=describe_conditions(guard),
        action=guard.action,
    )


def _open_log(engine: Engine) -> GuardLog:
    return GuardLog(engine.place.tenant_folder / "guards.jsonl")


def _author(call: RequestContext) -> str:
    return "agent" if call.agent else "person"


def _add(engine: Engine, draft: GuardDraft, by: str) -> GuardChange:
    engine.place.create()
    return _open_log(engine).add(draft, by)


def _conditions(request: GuardConditionsRequest) -> GuardConditions:
    return GuardConditions(
        tool=request.tool.strip(),
        paths=tuple(path.strip() for path in request.paths),
        command=" ".join(request.command.split()),
        content=request.content,
    )


def _hit_reply(hit: ReplayHit) -> GuardHit:
    texts = {"call": format_hit(hit), "statement": format_statement(hit), "session_id": hit.call.session}
    return reply_from(hit.call, GuardHit, corrected=hit.corrected, why=hit.why, verdict=hit.verdict, **texts)


def _proposals(engine: Engine, *, also_refused: bool = False) -> list[GuardProposal]:
    log = _open_log(engine)
    known = frozenset(guard.id for guard in log.all()) | (frozenset() if also_refused else log.removed())
    return propose_guards(engine.standing_rules(), known)


def _find_guard_or_proposal(engine: Engine, identity: str) -> Guard:
    try:
        return _open_log(engine).find(identity)
    except NotFound:
        matches = [proposal for proposal in _proposals(engine, also_refused=True) if proposal.id.startswith(identity)]
        if len(matches) != 1:
            raise
        return matches[0].as_guard()


def check_new_guard(engine: Engine, draft: GuardDraft, by: str, call: RequestContext) -> None:
    """Raise UsageError if a guard may not be added, or matches nearly every call."""
    check_draft(draft, by)
    guard = guard_from_draft(draft, by)
    check_share(guard, _replay(engine, guard, call, all_projects=not draft.project))


def _replay(engine: Engine, guard: Guard, call: RequestContext, *, all_projects: bool) -> ReplayReport:
    calls, notes = engine.past_calls(call.environment, all_projects=all_projects).calls(call.progress)
    rules = engine.standing_rules() if guard.memory else []
    said = next((rule.words for rule in rules if rule.id == guard.memory), (guard.message,))
    return replay(guard, calls, said, notes)


def _replay_reply(guard: Guard, report: ReplayReport, limit: int) -> GuardReplay:
    try:
        check_share(guard, report)
        refused = ""
    except UsageError as error:
        refused = error.message
    hits = tuple(_hit_reply(hit) for hit in list(reversed(report.hits))[:limit])
    verdict, count = format_verdict(report), len(report.hits)
    return reply_from(report, GuardReplay, id=guard.id, verdict=verdict, hit_count=count, hits=hits, refused=refused)
