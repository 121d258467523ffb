"""Where captured turns stand: a project's folder of journals, kept out of its repository, and in the index at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from lorelog.core.document import SourceFile, Stamp
from lorelog.core.errors import StoreError, StoreUnwritable
from lorelog.services.index import IndexRun
from lorelog.services.place import Place
from lorelog.services.project_folder import FOLDER, found_folder
from lorelog.services.roots import Root
from lorelog.services.session.means import Means


def found_journals(place: Place) -> None:
    """Make a Git project's folder, with a file that keeps it out of commits, where there is none yet."""
    if place.project.git and not os.path.lexists(Path(place.project.id) / FOLDER):
        found_folder(place.project.id, git=True)


def index_journals(journals: Sequence[Path], root: Root, means: Means) -> list[str]:
    """Bring the index up to date with journals; what goes wrong is a note, because the entries are safe."""
    notes: list[str] = []
    job = replace(means.job((root,)), roots=(root,))
    try:
        files = [SourceFile(str(path), root.path, Stamp.of(path.lstat())) for path in journals if path.exists()]
        report = IndexRun(means.store, means.embedder, job).over_files(files)
        notes += [*report.notes, *(problem.message for problem in report.problems)]
    except StoreError as error:
        notes.append(f"saved, but not searchable yet: {error.message}")
    with suppress(StoreUnwritable):  # journals are found without being remembered
        means.roots.remember([root])
    return notes
