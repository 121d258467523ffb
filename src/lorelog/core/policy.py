"""Who may do what to whose memory: the only place that decides it.

A right is what an operation does. Each operation names the one it needs; a handler checks a further one where that depends on the
arguments. The table in docs/security.md is generated from the one here, and a test runs every cell on every surface.

The dispatcher asks before each call, after the name of the operation was resolved, so no surface compares names. A change of a memory
that is the user's own becomes a proposal if anyone but a person asks for it: the memory stays as it is until a person approves.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from lorelog.core.caller import detect_agent
from lorelog.core.errors import Forbidden


class Caller(StrEnum):
    """Who calls an operation, as far as that can be told."""

    TERMINAL = "a person's terminal"
    PAGE = "the page"
    SHELL = "an agent's shell"
    MCP = "MCP"
    BEARER = "a client with the HTTP token"


class Permission(StrEnum):
    """What becomes of a call."""

    YES = "yes"
    CONFIRMED = "with its id"
    AS_AGENT = "as an agent's"
    AS_FILE = "as a file's"
    AS_JUDGE = "as a judge's"
    PROPOSED = "proposed"
    """Of a memory that is not the user's own: yes."""
    ALL_PROPOSED = "always proposed"
    DRY_RUN = "dry run"
    NO = "no"


class Right(Struct, frozen=True):
    """What some operations do, and what becomes of such a call by caller."""

    permissions: tuple[Permission, ...]
    """In the order of `Caller`."""
    does: str
    """What is done, after "cannot"."""
    why: str
    """Why it is refused to some; empty if that is plain."""

    def permission(self, caller: Caller, *, of_users: bool = True) -> Permission:
        """Return what becomes of a call about a memory that is the user's own, or another one."""
        found = self.permissions[list(Caller).index(caller)]
        return Permission.YES if found is Permission.PROPOSED and not of_users else found

    def refusal(self, who: str, does: str = "") -> Forbidden:
        """Return the error that tells a caller that it may not do this, in the right's words or in others."""
        page = ", or in the page" if self.permission(Caller.PAGE) is not Permission.NO else ""
        message = f"{who} cannot {does or self.does}" + (f": {self.why}" if self.why else "")
        return Forbidden(message, hint=f"a person does this in a terminal of their own{page}")


_TABLE = """
read            | yes | yes         | yes             | yes           | yes           | read and search what is remembered |
ask_as_hook     | yes | yes         | yes             | no            | yes           | ask for what a hook shows | hooks of agents call it and show its reply; search_memory and debug.why answer in full
write           | yes | yes         | as an agent's   | as an agent's | as an agent's | add memories, records, feedback and guards that warn |
change          | yes | yes         | proposed        | proposed      | proposed      | replace a memory, or set its dates |
delete          | yes | with its id | proposed        | proposed      | proposed      | hide a memory |
restore         | yes | yes         | always proposed | always proposed | always proposed | show a hidden memory again |
edit            | yes | yes         | always proposed | no            | no            | edit a memory in its file | only a person edits what is remembered, and others supersede it
forget          | yes | with its id | dry run         | no            | no            | forget for good | there is no way back, and 'delete' hides a memory
receipts        | yes | yes         | yes             | no            | no            | read receipts of forgotten text | receipts are for the person who forgot something
file            | yes | yes         | as a judge's    | no            | no            | file what the user said | who files what the user said is decided in the page, the shell or Python
approve         | yes | yes         | no              | no            | no            | decide what was proposed |
choose_judge    | yes | yes         | no              | no            | no            | choose the judge |
guard           | yes | yes         | no              | no            | no            | add a guard that blocks, or change one that a person wrote or approved or that has retired |
keep_secrets    | yes | yes         | no              | no            | no            | keep secrets in a memory |
settings        | yes | yes         | yes             | no            | no            | read settings, and change those of a project that a repository may set | settings belong to the person at this machine: the page, 'lorelog config' and Python change them
configure       | yes | yes         | no              | no            | no            | change settings of all projects, or those that a repository may not set | they say what is captured and found, where text is sent, what is redacted, and who may read it
index_code      | yes | yes         | yes             | no            | yes           | index code | which code is indexed is the user's decision, made in the shell or in Python
maintain        | yes | no          | yes             | no            | no            | name files of this machine, or maintain its index | it names files, maintains the index or may cost money; use the shell or Python
capture         | yes | no          | as a file's     | no            | no            | capture conversations | it reads conversations that the caller names; hooks on this machine call it
pause           | yes | no          | no              | no            | no            | keep a session out of memory, or resume it |
undo            | yes | no          | no              | no            | no            | take back what a person did |
restore_archive | yes | no          | dry run         | no            | no            | restore an archive | what is in it counts as the user's own words, guards and settings
send            | yes | no          | no              | no            | no            | send memories to a remote | it uses a Git remote with the credentials of a person's shell
"""
"""Name of the right, permissions in the order of `Caller`, what is done, and why it is refused to some."""


_ROWS = ([cell.strip() for cell in line.split("|")] for line in _TABLE.strip().split("\n"))
RIGHTS = {name: Right(tuple(map(Permission, cells[:-2])), *cells[-2:]) for name, *cells in _ROWS}
USERS_ORIGINS = frozenset({"", "user", "changed"})
"""Origins, as they are shown, of memories that are the user's own: also of one that was changed outside lorelog."""


def is_allowed(name: str, caller: Caller) -> bool:
    """Return whether a caller has a right as a person has it."""
    return RIGHTS[name].permission(caller) in (Permission.YES, Permission.CONFIRMED)


def check_right(name: str, caller: Caller, who: str, does: str = "") -> None:
    """Raise Forbidden, which names the caller, unless it has a right."""
    if not is_allowed(name, caller):
        raise RIGHTS[name].refusal(who or str(caller), does)


def check_shell(name: str, environment: Mapping[str, str], does: str = "") -> None:
    """Raise Forbidden unless a command with this environment has a right."""
    agent = detect_agent(environment)
    check_right(name, Caller.SHELL if agent else Caller.TERMINAL, agent, does)


def may_replace(origin: str) -> bool:
    """Return whether a text of this origin may hide or replace a memory of the user's own: only a person's."""
    return origin in ("", "user")
