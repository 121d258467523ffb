"""Candidates for guards, from rules that begin with a prohibition and name a command or a file.

The names are those of the rule's cues. A rule with a condition ("never run npm without asking") gives none, because a pattern cannot check
it. Only the user switches a candidate on, after a replay over past calls.

Only memories that were written on this machine count. What came with a repository, an import or a tool never becomes
a guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import asdict

from lorelog.light.delivery_files import read_standing
from lorelog.light.guard_check import PERSON, CallView
from lorelog.light.shell_command import word_set
from lorelog.light.wildcard import has_wildcard
from lorelog.services.cues.cue import Cue, CueKind, read_cues
from lorelog.services.guards.guard_log import (
    MAX_MESSAGE_CHARS,
    Guard,
    GuardConditions,
    GuardDraft,
    guard_from_draft,
    guard_id,
)
from lorelog.services.guards.replay import PastCall

_TYPES = frozenset({"correction", "preference"})
_PROHIBITIONS = ("never ", "don't ", "dont ", "do not ", "no ")
_REMINDERS = ("forget", "worry", "hesitate", "mind")
_CONDITIONS = word_set("without unless until till before after when while if except only yet but")


class StandingRule(Struct, frozen=True, kw_only=True):
    """A memory as the file of standing memories has it."""

    id: str
    type: str
    text: str
    date: str
    origin: str
    own: bool
    """True if it was written on this machine; False if it came with a repository or an import."""
    project: str
    cues: tuple[Cue, ...] = ()

    @property
    def may_become_guard(self) -> bool:
        """False for text that is not the user's own word."""
        return self.own and self.origin in {"", "user"}

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


def read_standing_memories(files: Sequence[str], project: str) -> list[StandingRule]:
    """Return the memories of the project's file and of the global one, newest first; unreadable lines are skipped."""
    memories: list[StandingRule] = []
    for file, owner in zip(files, (project, ""), strict=True):
        for entry in read_standing((file,)):
            texts = {name: str(entry.get(name) or "") for name in ("id", "type", "text", "date", "origin")}
            cues = entry.get("cues")
            known = read_cues(map(str, cues)) if isinstance(cues, list) else ()
            memories.append(StandingRule(**texts, own=entry.get("own") is True, project=owner, cues=known))
    return sorted(memories, key=lambda memory: memory.date, reverse=True)


def propose_guards(memories: Iterable[StandingRule], known: frozenset[str]) -> list[GuardProposal]:
    """Return proposals, newest rule first, without those whose guards exist already (`known` ids)."""
    proposals: dict[str, GuardProposal] = {}
    for memory in memories:
        if memory.type not in _TYPES or not memory.may_become_guard or not memory.is_prohibition:
            continue
        commands = [cue.value for cue in memory.cues if cue.kind is CueKind.COMMAND]
        paths = [cue.value for cue in memory.cues if cue.kind is CueKind.PATH]
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
