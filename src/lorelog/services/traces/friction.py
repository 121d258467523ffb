"""The walls that sessions run into again and again, what they cost, and what would help: counted, without a model.

A wall is a command that keeps failing and has a remedy (`remedies.find_remedies`), a file that sessions read several times, or what the
user keeps saying (`Reviewer.walls`: a judge or the user filed it as one); each in at least three sessions. Tests that fail until the
code is right have no remedy, so they are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from lorelog.core.ports import group_by
from lorelog.core.serializable import ReplyItems, Serializable
from lorelog.services.traces.remedies import command_shape, error_kind, find_remedies
from lorelog.services.traces.tables import TracedAction, format_moment

MIN_SESSIONS = 3
FAILS, SAID, REREAD = "fails", "said", "reread"
_CHARS_PER_TOKEN = 4
_MAX_NAME_BYTES = 255


class Wall(Serializable, Struct, frozen=True, kw_only=True):
    """What sessions ran into again and again."""

    kind: str
    """`fails`, `said` or `reread`."""
    what: str
    """The command, with `*` for a masked word; the rule, or the file."""
    sessions: int
    calls: int
    """Calls that it cost: the failed ones, or those that read the file again; or how often it was said."""
    tokens: int
    """About how many tokens their results, or the user's words, had."""
    last_at: str
    remedy: str
    """What an agent should be told."""


class FrictionReply(ReplyItems[Wall], Serializable, Struct, frozen=True, kw_only=True):
    """Walls by kind, those of most sessions first."""

    walls: tuple[Wall, ...]
    sessions: int
    """Sessions that were looked at."""
    notes: tuple[str, ...] = ()


def find_walls(
    actions: Sequence[TracedAction], locate: Callable[[str], str], limit: int, said: Iterable[Wall] = ()
) -> FrictionReply:
    """Return at most `limit` walls of each kind. `actions` are in order of time; `locate` names a file in the project, or nothing."""
    found = [wall for wall in (*_walls(actions, locate), *said) if wall.sessions >= MIN_SESSIONS]
    kinds = group_by(sorted(found, key=lambda wall: (-wall.sessions, -wall.tokens)), lambda wall: wall.kind)
    walls = tuple(wall for kind in (FAILS, SAID, REREAD) for wall in kinds.get(kind, [])[:limit])
    return FrictionReply(walls=walls, sessions=len({action.session for action in actions}))


def _walls(actions: Sequence[TracedAction], locate: Callable[[str], str]) -> Iterator[Wall]:
    runs = group_by((run for run in actions if run.command), lambda run: command_shape(run.command))
    for remedy in find_remedies(actions):
        same = [run for run in runs[remedy.shape] if run.failed and error_kind(run.error) == remedy.error]
        yield _wall(FAILS, remedy.shape, same, remedy.text())
    names = {file: locate(file) for file in {action.file for action in actions if action.file}}
    for file, reads in group_by((act for act in actions if names.get(act.file)), lambda act: names[act.file]).items():
        again = [read for same in group_by(reads, lambda read: read.session).values() for read in same[1:]]
        yield _wall(
            REREAD, file, again, f"Before you read `{file}`, `lorelog code outline {file}` shows which part is needed."
        )


def _wall(kind: str, what: str, calls: Sequence[TracedAction], remedy: str) -> Wall:
    return Wall(
        kind=kind,
        what=what,
        sessions=len({call.session for call in calls}),
        calls=len(calls),
        tokens=sum(call.chars for call in calls) // _CHARS_PER_TOKEN,
        last_at=format_moment(max((call.at for call in calls), default=0)),
        remedy=remedy,
    )


def project_file(root: str, file: str) -> str:
    """Return the file of a project that another checkout may have named by its own path; empty if there is none."""
    parts = [part for part in file.split("/") if part]
    if not root or ".." in parts or any(len(part.encode("utf-8", "replace")) > _MAX_NAME_BYTES for part in parts):
        return ""
    tails = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((tail for tail in tails if Path(root, tail).is_file()), "")
