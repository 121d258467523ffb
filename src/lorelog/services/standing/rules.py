"""The rules and decisions that stand, as every command shows them, what agents did about them, and the guards that they suggest.

All read the file that hooks read, and word a rule the same way: with when and how the user said it, or quoted, as another person's.

Rules, and the lines of CLAUDE.md and AGENTS.md, are compared with past calls. A rule applies to the calls that have its commands, paths and
events. A call breaks it if it has what the rule forbids: a judge said so, the rule begins with a prohibition, or names what to use in its place. A
call follows it if it runs a command that the rule says to use. What a rule means beyond that is not guessed: of a line only
what stands in code counts, and a line that names neither command nor path there cannot be checked.

A guard is proposed from a rule that forbids a command or a file, by the rule's cues. A rule with a condition
("never run npm without asking") gives none, because a pattern cannot check it. Only the user switches a proposal on, after a replay over past
calls. What came with a repository, an import or a tool, and what an agent wrote, never becomes a guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from lorelog.core.atomic_file import write_atomic
from lorelog.core.document import short_hash
from lorelog.core.paths import leads_out
from lorelog.core.serializable import Serializable, parse_iso_time
from lorelog.light import delivery_files
from lorelog.light.cue_table import call_events
from lorelog.light.guard_check import PERSON, CallView
from lorelog.light.shell_command import with_verb, word_set
from lorelog.light.wildcard import has_wildcard
from lorelog.services.cues.cue import CueKind, read_cues
from lorelog.services.guards import guard_log
from lorelog.services.guards.replay import PastCall, ReplayHit, reaction_to
from lorelog.services.places.workspace import CURSOR_RULES, Workspace
from lorelog.services.standing.memories import StandingMemory

if TYPE_CHECKING:
    from lorelog.ingest.redaction.redact import RedactText

DECISION = "decision"
BROKEN, FOLLOWED, APPLIES = "broken", "followed", "is about"
"""What a matching call shows of a rule. The first of the alphabet counts if there are several."""
REST_DAYS, MIN_RECENT_CALLS = 90, 200
"""A rule that nobody broke for so long, in so many calls, needs not be shown at every session start."""
_Check = tuple[str, guard_log.GuardConditions, str]
"""What a matching call shows of a rule, and the conditions, or an event, that it matches by."""
LINE = "line"
"""Type of a line of instructions."""
_INSTRUCTION_FILES = ("CLAUDE.md", "AGENTS.md")
_MAX_INSTRUCTION_BYTES = 200_000
_PROHIBITIONS = ("never ", "don't ", "dont ", "do not ", "no ")
_REMINDERS = ("forget", "worry", "hesitate", "mind")
_CONDITIONS = word_set("without unless until till before after when while if except only yet but")


class StandingRule(StandingMemory, frozen=True, kw_only=True):
    """A memory that stands, as it was read from the file."""

    forbids: bool | None = None
    """Whether it forbids what its cues name; None if no judge was asked."""
    said: tuple[str, ...] = ()
    """The words that were filed as it."""

    @property
    def since(self) -> str:
        """Since when it holds: a filed rule since it was said."""
        said = self.reason.removeprefix("said on ")[:10]
        return said if delivery_files.is_iso_date(said) else self.date

    @property
    def words(self) -> tuple[str, ...]:
        """The words with which the user states it."""
        return (self.text, *self.said)

    @property
    def is_users(self) -> bool:
        """False for text that is not the user's own word."""
        return delivery_files.is_users_word({"own": self.own, "origin": self.origin})

    @property
    def is_stale(self) -> bool:
        """True if the code that it names has changed."""
        return self.verdict in delivery_files.STALE_VERDICTS

    @property
    def line(self) -> str:
        """The rule as every surface words it."""
        return delivery_files.describe_memory(asdict(self))

    @property
    def is_prohibition(self) -> bool:
        """True if it forbids something without a condition."""
        if self.forbids is not None:
            return self.forbids
        text = self.text.lower().replace("\u2019", "'").removeprefix("please ")
        for opener in ("from now on", "going forward", "remember: "):
            text = text.removeprefix(opener).lstrip(" ,:")
        start = next((start for start in _PROHIBITIONS if text.startswith(start)), "")
        is_reminder = text.removeprefix(start).startswith(_REMINDERS)
        return bool(start) and not is_reminder and _CONDITIONS.isdisjoint(text.replace(",", " ").split())


class GuardProposal(guard_log.GuardConditions, frozen=True, kw_only=True):
    """A guard that a correction suggests."""

    id: str
    """The id that the guard will have."""
    example: str
    """A call that it would match."""
    correction: str
    memory: str
    date: str
    project: str
    created_by: str = PERSON

    def as_guard(self) -> guard_log.Guard:
        """Return the guard that it suggests, which warns. A proposal is the user's own words."""
        text = " ".join(self.correction.split())
        draft = guard_log.GuardDraft(
            **{name: getattr(self, name) for name in guard_log.GuardConditions.__struct_fields__},
            message=text if len(text) <= guard_log.MAX_MESSAGE_CHARS else text[: guard_log.MAX_MESSAGE_CHARS - 1] + "…",
            memory=self.memory,
            project=self.project,
        )
        return guard_log.guard_from_draft(draft, PERSON)


class StandingRules(Struct, frozen=True):
    """The rules and decisions that stand in a project: the user's, newest first, then those of others; none that agents noted."""

    rules: tuple[StandingRule, ...]
    decisions: tuple[StandingRule, ...]


def read_standing_memories(
    workspace: Workspace,
    judged: Mapping[str, bool] = MappingProxyType({}),
    said: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[StandingRule]:
    """Return all memories that stand in a project, with the global ones, newest first; unreadable lines are skipped.

    `judged` says of those that a judge filed whether they forbid something, `said` which words were filed as them.
    """
    memories: list[StandingRule] = []
    for entry in delivery_files.read_standing(
        delivery_files.DeliveryFiles(str(workspace.tenant_folder), workspace.project.id).standing
    ):
        with suppress(msgspec.ValidationError):
            more = {"forbids": judged.get(entry["id"]), "said": said.get(entry["id"], ())}
            memories.append(msgspec.convert(entry | more, StandingRule))
    return sorted(memories, key=lambda memory: memory.date, reverse=True)


def read_standing_rules(workspace: Workspace) -> StandingRules:
    """Return what stands in a project, for the commands that show it."""
    shown = [memory for memory in read_standing_memories(workspace) if memory.origin != "agent"]
    shown.sort(key=lambda memory: not memory.is_users)
    decisions = tuple(memory for memory in shown if memory.type == DECISION)
    return StandingRules(tuple(memory for memory in shown if memory.type in delivery_files.RULE_TYPES), decisions)


_TEAM_HEAD = """\
# Rules of this project

Written by `lorelog rules export`, reviewed and merged like code. lorelog shows them as the team's, quoted, until you adopt them (`lorelog review`).
"""


def add_team_rules(text: str, rules: Sequence[StandingRule], clean: RedactText) -> tuple[str, int]:
    """Return the text of the team's file with the rules that it does not have yet, and their number. What others wrote stays.

    The id of an entry is made of its words: whoever rewords one in the file asks everybody again.
    """
    entries: list[str] = []
    for rule in reversed(rules):
        words = clean(rule.text)
        anchor = f"<!-- memory:rule-{short_hash(delivery_files.text_key(words))} type:{rule.type} -->"
        if anchor not in text and anchor not in "".join(entries):
            entries.append(f"\n## {rule.since[:10]}\n{anchor}\n- {words}\n")
    return (text or _TEAM_HEAD) + "".join(entries), len(entries)


_CURSOR_HEAD = """\
---
description: Corrections and preferences of the user in this project
alwaysApply: true
---
<!-- Generated by lorelog, which keeps it up to date: see `lorelog rules`. A file that somebody edited is left alone. -->

# Corrections and preferences of the user

"""
_CURSOR_MARK = "\n<!-- lorelog:rules "
_MAX_COPIED = 40


def copy_rules(place: Workspace) -> bytes:
    """Return the rules that are listed at the start of a session as a file for Cursor, which has no hook for context.

    Its last line has a hash of the rest and of the tenant's folder: a file that was edited, or came with a repository, is not overwritten.
    """
    rules = [
        rule for rule in read_standing_rules(place).rules if rule.is_users and not (rule.is_stale or rule.cue_only)
    ]
    body = _CURSOR_HEAD + ("".join(f"- {rule.line}\n" for rule in rules[:_MAX_COPIED]) or "None so far.\n")
    return f"{body}{_CURSOR_MARK}{short_hash(f'{place.tenant_folder} {body}')} -->\n".encode("utf-8", "replace")


def is_own_copy(text: bytes, tenant_folder: Path) -> bool:
    """Return whether a file is the copy that this tenant wrote last, unedited."""
    body, _, mark = text.decode("utf-8", "replace").rpartition(_CURSOR_MARK)
    return mark == f"{short_hash(f'{tenant_folder} {body}')} -->\n"


def refresh_copy(place: Workspace) -> None:
    """Write the copy of the rules again, if there is one of ours and the rules have changed."""
    file = Path(place.project.root, CURSOR_RULES)
    before = file.read_bytes()
    if is_own_copy(before, place.tenant_folder) and not leads_out(file, place.project.root):
        after = copy_rules(place)
        if after != before:
            write_atomic(file, after, durable=False)


def propose_guards(memories: Iterable[StandingRule], known: frozenset[str]) -> list[GuardProposal]:
    """Return proposals, newest rule first, without those whose guards exist already (`known` ids)."""
    proposals: dict[str, GuardProposal] = {}
    for memory in memories:
        if memory.type not in delivery_files.RULE_TYPES or not memory.is_users or not memory.is_prohibition:
            continue
        cues = read_cues(memory.cues)
        commands = [cue.value for cue in cues if cue.kind is CueKind.COMMAND]
        paths = [cue.value for cue in cues if cue.kind is CueKind.PATH]
        candidates = map(command_candidate, commands) if commands else map(path_candidate, paths)
        for conditions, example in candidates:
            guard = guard_log.guard_from_draft(guard_log.GuardDraft(**asdict(conditions), message=""), PERSON)
            identity = guard_log.guard_id(memory.project, conditions)
            if identity not in known and CallView(example.as_fields(), "/project").matches(guard.as_fields()):
                proposal = GuardProposal(
                    **asdict(conditions),
                    id=identity,
                    example=example.command or " ".join(example.paths),
                    correction=memory.text,
                    memory=memory.id,
                    date=memory.date,
                    project=memory.project,
                )
                proposals.setdefault(identity, proposal)
    return list(proposals.values())


def command_candidate(command: str) -> tuple[guard_log.GuardConditions, PastCall]:
    """Return the conditions for a command, whose options may come later, and a call that they match."""
    words = with_verb(command.split())
    first_option = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    stem, options = " ".join(words[:first_option]), words[first_option:]
    pattern = command if has_wildcard(command) else f"{stem} *" + "".join(f"{option} *" for option in options)
    example = command.replace(" *", "").replace("*", "x").replace("?", "x")
    return guard_log.GuardConditions(command=pattern), PastCall(tool="Bash", kind="run", command=example)


def path_candidate(path: str) -> tuple[guard_log.GuardConditions, PastCall]:
    """Return the conditions for a path, and a call that they match."""
    example = path.replace("**", "a").replace("*", "a").replace("?", "a").strip("/")
    if "." not in example.rpartition("/")[2]:
        example += "/example.txt"
    return guard_log.GuardConditions(paths=(path.rstrip("/"),)), PastCall(tool="Edit", kind="edit", paths=(example,))


# -- rules and past calls ------------------------------------------------------------------------------------------------


class RuleBalance(Serializable, Struct, frozen=True, kw_only=True):
    """A rule, and how many past calls applied to it, followed it, broke it, and were opposed by the user."""

    id: str
    """Of the memory, or file and line."""
    text: str
    since: str
    """Earlier calls do not count."""
    is_line: bool
    checkable: bool
    forbids: bool
    applies: int = 0
    followed: int = 0
    broken: int = 0
    corrected: int = 0
    last_broken: str = ""
    rests: bool = False
    """True if nobody broke it for a long time: it could be shown only when a call is about it."""


def read_instructions(root: str) -> list[StandingRule]:
    """Return the lines of a project's instructions for agents as rules; equal ones once, without those in fences."""
    found: dict[str, StandingRule] = {}
    for name in _INSTRUCTION_FILES:
        lines = (
            delivery_files.read_start(f"{root}/{name}", _MAX_INSTRUCTION_BYTES).decode("utf-8", "replace").splitlines()
        )
        in_fence = False
        for number, line in enumerate(lines, 1):
            text = line.replace("**", "").strip().lstrip("-*+> ")
            in_fence ^= text.startswith(("```", "~~~"))
            if text and not in_fence and not text.startswith(("#", "<", "|", "@", "```", "~~~")):
                found.setdefault(text, StandingRule(id=f"{name}:{number}", text=text, type=LINE))
    return list(found.values())


def check_rules(
    rules: Sequence[StandingRule], calls: Iterable[PastCall], today: date
) -> list[tuple[RuleBalance, list[ReplayHit]]]:
    """Compare all rules with all calls in one pass; return the balance of each rule, and its calls, oldest first."""
    checks = [_cached_checks(rule) for rule in rules]
    by_program: dict[str, list[tuple[int, _Check, dict[str, Any]]]] = {}
    """Checks by the program that a call must run; with an empty name those for any call."""
    for number, check in ((number, check) for number, some in enumerate(checks) for check in some):
        program = check[1].command.partition(" ")[0].lower()
        by_program.setdefault(program, []).append((number, check, check[1].condition_fields()))
    hits: list[list[ReplayHit]] = [[] for _ in rules]
    since = [rule.since[:16] for rule in rules]
    recent, recent_calls = (today - timedelta(days=REST_DAYS)).isoformat(), 0
    for call in calls:
        moment, view = parse_iso_time(call.at), CallView(call.as_fields(), call.directory or "/")
        minute = moment.astimezone().isoformat()[:16] if moment else ""  # as memories are dated
        recent_calls += minute >= recent
        events = call_events(call.as_fields()) if call.command else []
        found: dict[int, _Check] = {}
        for program in {"", *(text.partition(" ")[0] for text in view.texts)} if not call.stopped else ():
            for number, check, fields in by_program.get(program, ()):
                is_better = since[number] <= minute and (number not in found or check[0] < found[number][0])
                if is_better and (check[2] in events if check[2] else view.matches(fields)):
                    found[number] = check
        for number, (verdict, _, _) in found.items():
            why = reaction_to(call, rules[number].words if verdict == BROKEN else ())
            hits[number].append(ReplayHit(call=call, corrected=bool(why), why=why, verdict=verdict))
    recent = recent if recent_calls >= MIN_RECENT_CALLS else ""
    verdicts = [{check[0] for check in some} for some in checks]
    return [(_balance(*each, recent), each[2]) for each in zip(rules, verdicts, hits, strict=True)]


def _balance(rule: StandingRule, verdicts: set[str], hits: list[ReplayHit], recent: str) -> RuleBalance:
    """Return the balance of a rule; it may rest if it is older than `recent`, and was not broken since."""
    hits.sort(key=lambda hit: hit.call.at)
    broken = [hit.call.at for hit in hits if hit.verdict == BROKEN]
    may_rest = BROKEN in verdicts and rule.type in delivery_files.RULE_TYPES and rule.since < recent
    return RuleBalance(
        id=rule.id,
        text=rule.text,
        since=rule.since,
        is_line=rule.type == LINE,
        checkable=bool(verdicts),
        forbids=BROKEN in verdicts,
        applies=len(hits),
        followed=sum(hit.verdict == FOLLOWED for hit in hits),
        broken=len(broken),
        corrected=sum(hit.corrected for hit in hits if hit.verdict != FOLLOWED),
        last_broken="".join(broken[-1:]),
        rests=may_rest and "".join(broken[-1:]) < recent,
    )


@lru_cache(4096)
def _cached_checks(rule: StandingRule) -> tuple[_Check, ...]:
    return tuple(_checks_of(rule))


def _checks_of(rule: StandingRule) -> Iterator[_Check]:
    """Yield the checks of a rule.

    Of a line, only what stands in code is read, by sentence, and only if it says what to use or not to use: most lines describe. A
    sentence of a line forbids if it says nothing else: no place, no purpose.
    """
    from lorelog.services.cues.derive import derive_cues, find_choices

    if rule.type == LINE:
        found: list[_Check] = []
        for sentence in rule.text.split(". "):
            parts = sentence.split("`")
            cues = [str(cue) for cue in derive_cues(sentence) if any(cue.value in code for code in parts[1::2])]
            is_joined = all(part.strip(" ,/;") in ("", "or", "and", "nor", "use", "run") for part in parts[2:-1:2])
            is_whole = is_joined and len(parts[0].split()) <= 3 and parts[-1].strip()[:1] in ("", *".,;:!()-–—")
            named = StandingRule(id="", text=sentence, cues=tuple(cues), forbids=None if is_whole else False)
            found += _checks_of(named)
        yield from found if any(check[0] != APPLIES for check in found) else ()
        return
    chosen, replaced = find_choices(rule.text)
    named_cues = read_cues(rule.cues)
    values = {kind: [cue.value for cue in named_cues if cue.kind is kind] for kind in CueKind}
    forbids = rule.is_prohibition
    for command in values[CueKind.COMMAND]:
        yield BROKEN if forbids or command in replaced else APPLIES, command_candidate(command)[0], ""
    yield from ((FOLLOWED, command_candidate(command)[0], "") for command in chosen)
    verdict = BROKEN if forbids and not values[CueKind.COMMAND] else APPLIES
    yield from ((verdict, path_candidate(path)[0], "") for path in values[CueKind.PATH])
    yield from (
        (BROKEN if rule.forbids else APPLIES, guard_log.GuardConditions(), event) for event in values[CueKind.EVENT]
    )


def save_balances(folder: Path, project: str, rules: Sequence[RuleBalance]) -> None:
    """Keep the balances of a project for the inbox, which cannot wait for a pass over all calls."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(folder / f"{delivery_files.project_key(project)}.rules", msgspec.json.encode(rules), durable=False)


def read_balances(folder: Path, project: str) -> dict[str, RuleBalance]:
    """Return the balances of a project as they were saved last, by rule."""
    with suppress(OSError, msgspec.DecodeError):
        data = (folder / f"{delivery_files.project_key(project)}.rules").read_bytes()
        return {rule.id: rule for rule in msgspec.json.decode(data, type=list[RuleBalance])}
    return {}
