"""Digests for whoever asks: what is seen from where they stand, compiled now, with what each record behind it is worth.

Nothing is kept: a digest is made when it is asked for, so it is never older than the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import path
from typing import Generic, TypeVar

from lorelog.core.query import Grounding
from lorelog.records import digests_build
from lorelog.records.digests import MOST_GROUNDING, Digest, Role
from lorelog.records.digests_build import Brief, Library, View
from lorelog.records.digests_resume import Resume
from lorelog.records.digests_resume import resume as resume_task
from lorelog.services.records.archive import Archive
from lorelog.services.records.book import Book
from lorelog.services.records.judged import judged
from lorelog.services.records.naming import find_task

Made = TypeVar("Made")
ALL_NAME = "all projects"


@dataclass(frozen=True, slots=True)
class Compiled(Generic[Made]):
    """What was compiled, and the records that it stands on, the first of them."""

    made: Made
    digest: Digest
    grounding: tuple[Grounding, ...]


def view_of(archive: Archive, *, all_projects: bool = False) -> View:
    """Return what is seen from a place."""
    name = archive.place.project.name
    return View(None, ALL_NAME) if all_projects else View(archive.projects, name)


def project_name(project: str) -> str:
    """Return what a person calls a project, of which only the id is known."""
    return path.basename(project.rstrip("/")) or project or "no project"  # noqa: PTH119  (it may be no path at all)


def resume(archive: Archive, task_id: str, *, query: str = "", k: int = 10) -> Compiled[Resume]:
    """Return where a task is. Raise NotFound where there is none."""
    tables = archive.book.tables()
    task = tables.task(find_task(tables, task_id))
    assert task is not None  # noqa: S101  (it has just been found)
    made = resume_task(tables, archive.book.trust, task, query=query, most=k)
    return _compiled(archive.book, made, made.digest)


def library(
    archive: Archive, role: Role, *, query: str = "", k: int = 10, all_projects: bool = False
) -> Compiled[Library]:
    """Return what records say on one matter."""
    view = view_of(archive, all_projects=all_projects)
    made = digests_build.library(archive.book.tables(), archive.book.trust, view, role, query=query, most=k)
    return _compiled(archive.book, made, made.digest)


def brief(
    archive: Archive, *, query: str = "", k: int = 10, related: bool = True, all_projects: bool = False
) -> Compiled[Brief]:
    """Return what somebody should know who comes to a project."""
    view = view_of(archive, all_projects=all_projects)
    made = digests_build.brief(archive.book.tables(), archive.book.trust, view, query=query, most=k, related=related)
    return _compiled(archive.book, made, made.digest)


def _compiled(book: Book, made: Made, digest: Digest) -> Compiled[Made]:
    return Compiled(made, digest, tuple(_grounding(book, digest.records[:MOST_GROUNDING])))


def _grounding(book: Book, ids: Sequence[str]) -> list[Grounding]:
    found = {one.record.id: one.grounding for one in judged(book, book.tables().of_ids(ids))}
    return [found[identity] for identity in ids if identity in found]
