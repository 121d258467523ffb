"""The rules and decisions that stand, as every command shows them, and the guards that prohibitions among them suggest.

All read the file that hooks read, and word a rule the same way: with when and how the user said it, or quoted, as another person's.

A guard is proposed from a rule that begins with a prohibition and names a command or a file, by the rule's cues. A rule with a condition
("never run npm without asking") gives none, because a pattern cannot check it. Only the user switches a proposal on, after a replay over past
calls. What came with a repository, an import or a tool, and what an agent wrote, never becomes a guard.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from lorelog.core.serializable import Serializable
from lorelog.light.delivery_files import DeliveryFiles, describe_memory, read_standing
from lorelog.light.guard_check import PERSON, CallView
from lorelog.light.session_start import RULE_TYPES, STALE_VERDICTS
from lorelog.light.shell_command import word_set
from lorelog.light.wildcard import has_wildcard
from lorelog.services.cues.cue import CueKind, read_cues
from lorelog.services.guards.guard_log import (
    MAX_MESSAGE_CHARS,
    Guard,
    GuardConditions,
    GuardDraft,
    guard_from_draft,
    guard_id,
)
from lorelog.services.guards.replay import PastCall
from lorelog.services.places.workspace import Workspace

DECISION = "decision"
_PROHIBITIONS = ("never ", "don't ", "dont ", "do not ", "no ")
_REMINDERS = ("forget", "worry", "hesitate", "mind")
_CONDITIONS = word_set("without unless until till before after when while if except only yet but")


class StandingRule(Serializable, Struct, frozen=True, kw_only=True):
    """A memory that stands."""

    id: str
    text: str
    type: str = ""
    date: str = ""
    origin: str = ""
    own: bool = False
    """True if it was written on this machine; False if it came with a repository or an import."""
    writer: str = ""
    """Who wrote one that is not own, if that is known."""
    reason: str = ""
    """When and how the user said it, and who filed it; empty if it was added by hand."""
    edited: bool = False
    """True if its entry was changed outside lorelog: the last wording stands until the user answers."""
    verdict: str = ""
    """The freshness of the code that it names."""
    project: str = ""
    cues: tuple[str, ...] = ()

    @property
    def is_users(self) -> bool:
        """False for text that is not the user's own word."""
        return self.own and self.origin in {"", "user"}

    @property
    def said_on(self) -> str:
        """The day on which it was said, or else added."""
        return self.reason.removeprefix("said on ")[:10] or self.date[:10]

    @property
    def is_stale(self) -> bool:
        """True if the code that it names has changed."""
        return self.verdict in STALE_VERDICTS

    @property
    def line(self) -> str:
        """The rule as every surface words it."""
        return ("may be out of date: " if self.is_stale else "") + describe_memory(asdict(self))

    @property
    def is_prohibition(self) -> bool:
        """True if it forbids something without a condition."""
        text = self.text.lower().replace("\u2019", "'").removeprefix("please ")
        for opener in ("from now on", "going forward", "remember: "):
            text = text.removeprefix(opener).lstrip(" ,:")
        start = next((start for start in _PROHIBITIONS if text.startswith(start)), "")
        is_reminder = text.removeprefix(start).startswith(_REMINDERS)
        return bool(start) and not is_reminder and _CONDITIONS.isdisjoint(text.replace(",", " ").split())


class GuardProposal(GuardConditions, frozen=True, kw_only=True):
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

    def as_guard(self) -> Guard:
        """Return the guard that it suggests, which warns. A proposal is the user's own words."""
        text = " ".join(self.correction.split())
        draft = GuardDraft(
            **{name: getattr(self, name) for name in GuardConditions.__struct_fields__},
            message=text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…",
            memory=self.memory,
            project=self.project,
        )
        return guard_from_draft(draft, PERSON)


class StandingRules(Struct, frozen=True):
    """The rules and decisions that stand in a project: the user's, newest first, then those of others; none that agents noted."""

    rules: tuple[StandingRule, ...]
    decisions: tuple[StandingRule, ...]


def read_standing_memories(workspace: Workspace) -> list[StandingRule]:
    """Return all memories that stand in a project, with the global ones, newest first; unreadable lines are skipped."""
    memories: list[StandingRule] = []
    files = DeliveryFiles(str(workspace.tenant_folder), workspace.project.id).standing
    for file, project in zip(files, (workspace.project.id, ""), strict=True):
        for entry in read_standing((file,)):
            with suppress(msgspec.ValidationError):
                memories.append(msgspec.convert(entry | {"project": project}, StandingRule))
    return sorted(memories, key=lambda memory: memory.date, reverse=True)


def read_standing_rules(workspace: Workspace) -> StandingRules:
    """Return what stands in a project, for the commands that show it."""
    shown = [memory for memory in read_standing_memories(workspace) if memory.origin != "agent"]
    shown.sort(key=lambda memory: not memory.is_users)
    decisions = tuple(memory for memory in shown if memory.type == DECISION)
    return StandingRules(tuple(memory for memory in shown if memory.type in RULE_TYPES), decisions)


def propose_guards(memories: Iterable[StandingRule], known: frozenset[str]) -> list[GuardProposal]:
    """Return proposals, newest rule first, without those whose guards exist already (`known` ids)."""
    proposals: dict[str, GuardProposal] = {}
    for memory in memories:
        if memory.type not in RULE_TYPES or not memory.is_users or not memory.is_prohibition:
            continue
        cues = read_cues(memory.cues)
        commands = [cue.value for cue in cues if cue.kind is CueKind.COMMAND]
        paths = [cue.value for cue in cues if cue.kind is CueKind.PATH]
        candidates = map(_command_candidate, commands) if commands else map(_path_candidate, paths)
        for conditions, example in candidates:
            guard = guard_from_draft(GuardDraft(**asdict(conditions), message=""), PERSON)
            identity = guard_id(memory.project, conditions)
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


def _command_candidate(command: str) -> tuple[GuardConditions, PastCall]:
    """Return the conditions for a command, whose options may come later, and a call that they match."""
    words = command.split()
    first_option = next((index for index, word in enumerate(words) if word.startswith("-")), len(words))
    stem, options = " ".join(words[:first_option]), words[first_option:]
    pattern = command if has_wildcard(command) else f"{stem} *" + "".join(f"{option} *" for option in options)
    example = command.replace(" *", "").replace("*", "x").replace("?", "x")
    return GuardConditions(command=pattern), PastCall(tool="Bash", kind="run", command=example)


def _path_candidate(path: str) -> tuple[GuardConditions, PastCall]:
    example = path.replace("**", "a").replace("*", "a").replace("?", "a").strip("/")
    if "." not in example.rpartition("/")[2]:
        example += "/example.txt"
    return GuardConditions(paths=(path.rstrip("/"),)), PastCall(tool="Edit", kind="edit", paths=(example,))
