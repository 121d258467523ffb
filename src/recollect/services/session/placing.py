"""Where captured turns stand: a project's folder of journals, kept out of its repository, and in the index at once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from recollect.core.document import SourceFile, Stamp
from recollect.core.errors import StoreError, StoreUnwritable
from recollect.services.index import IndexRun
from recollect.services.place import Place
from recollect.services.roots import Root
from recollect.services.session.means import Means

FOLDER = ".recollect"
_IGNORED = (
    "# Conversations with agents are kept here and stay out of the repository. Delete this file to share them.\n*\n"
)


def found_journals(place: Place) -> None:
    """Make a Git project's folder, with a file that keeps it out of commits, where there is none yet.

    Both appear at once: a folder that is there without that file was left so by a person.
    """
    folder = Path(place.project.id) / FOLDER
    if not place.project.git or os.path.lexists(folder):
        return
    made = ""
    try:
        made = tempfile.mkdtemp(prefix=f"{FOLDER}.", suffix=".new", dir=place.project.id)
        Path(made, ".gitignore").write_text(_IGNORED, "utf-8")
        Path(made).chmod(0o777 & ~_umask())
        Path(made).rename(folder)
    except OSError as error:
        if made:
            shutil.rmtree(made, ignore_errors=True)
        if not os.path.lexists(folder):  # somebody else may have been faster
            raise StoreUnwritable(
                f"{folder} cannot be made: {error.strerror or error}", hint="make the project writable"
            ) from error


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


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
