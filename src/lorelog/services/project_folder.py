"""A project's own folder, `.lorelog`: made so that nothing in it is committed by accident, and never where a link leads.

Standard library only, because hooks come by here.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from lorelog.core.errors import StoreUnwritable
from lorelog.core.paths import is_below

# ruff: noqa: PTH101, PTH104, PTH112, PTH118, PTH123  (pathlib takes 10 ms to import)

FOLDER = ".lorelog"
IGNORED = (
    "# Conversations with agents are kept here and stay out of the repository. Delete this file to share them.\n*\n"
)


def found_folder(directory: str, *, git: bool) -> str:
    """Make a project's folder where there is none yet, and return its path. In a repository a file keeps it out of commits.

    Both appear at once: a folder that is there without that file was left so by a person. Raise StoreUnwritable where it
    cannot be made, or is a link that leads out of the project.
    """
    folder = os.path.join(directory, FOLDER)
    made = ""
    try:
        if not os.path.lexists(folder):
            made = tempfile.mkdtemp(prefix=f"{FOLDER}.", suffix=".new", dir=directory)
            if git:
                with open(os.path.join(made, ".gitignore"), "w", encoding="utf-8") as file:
                    file.write(IGNORED)
            os.chmod(made, 0o777 & ~_umask())
            os.rename(made, folder)
    except OSError as error:
        if made:
            shutil.rmtree(made, ignore_errors=True)
        if not os.path.lexists(folder):  # somebody else may have been faster
            raise StoreUnwritable(
                f"{folder} cannot be made: {error.strerror or error}", hint="make the project writable"
            ) from error
    if not os.path.isdir(folder) or not is_below(os.path.realpath(folder), os.path.realpath(directory)):
        raise StoreUnwritable(
            f"{folder} is no directory of the project", hint="make it one; lorelog follows no link out of a project"
        )
    return folder


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
