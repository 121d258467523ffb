"""The operations on what is compiled from records: where a task is, what failed, what was decided, and the brief of a project.

All of it is made when it is asked for, from records alone, and is worth a hint: what a reader relies on is the records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lorelog.engine import Engine
from lorelog.operations import digest_requests as requests
from lorelog.operations.operation import Call
from lorelog.records.digests import Role

if TYPE_CHECKING:
    from lorelog.records.digests_build import Brief, Library
    from lorelog.records.digests_resume import Resume
    from lorelog.services.records.digesting import Compiled


def resume(engine: Engine, request: requests.ResumeRequest, call: Call) -> Compiled[Resume]:
    """Tell where a task is, for whoever takes it up again: last word, next step, what worked, what failed, open runs.

    Each list has every entry once, the newest first, from records that nothing has superseded. Text that a tool or an
    import brought stands as a quotation.
    """
    from lorelog.services.records.digesting import resume as compiled

    return compiled(engine.records(), request.task_id, query=request.query, k=request.k)


def find_failures(engine: Engine, request: requests.LibraryRequest, call: Call) -> Compiled[Library]:
    """Tell what was tried and failed, and what stood in the way, the newest first."""
    return _library(engine, request, Role.FAILURES)


def find_decisions(engine: Engine, request: requests.LibraryRequest, call: Call) -> Compiled[Library]:
    """Tell what was decided and is in force: first what was recorded as a decision, then what other records settle."""
    return _library(engine, request, Role.DECISIONS)


def find_evidence(engine: Engine, request: requests.LibraryRequest, call: Call) -> Compiled[Library]:
    """Tell what speaks for or against something, and how things were checked, the newest first."""
    return _library(engine, request, Role.EVIDENCE)


def find_highlights(engine: Engine, request: requests.LibraryRequest, call: Call) -> Compiled[Library]:
    """Tell the lessons that matter most: decisions, warnings, and tactics that worked more than once.

    At most two of a task and four of a project. The confidence of a lesson grows with the records that say the same and with
    a second writer who speaks for it; it never reaches 1.
    """
    return _library(engine, request, Role.HIGHLIGHTS)


def brief_project(engine: Engine, request: requests.BriefRequest, call: Call) -> Compiled[Brief]:
    """Tell what somebody should know who comes to this project: tasks, failures, decisions, evidence, on one page."""
    from lorelog.services.records.digesting import brief

    related = request.include_related_projects
    return brief(engine.records(), query=request.query, k=request.k, related=related)


def _library(engine: Engine, request: requests.LibraryRequest, role: Role) -> Compiled[Library]:
    from lorelog.services.records.digesting import library

    return library(engine.records(), role, query=request.query, k=request.k, all_projects=request.all_projects)
