"""Create a project's `.lorelog` folder: ignored by Git, open to its owner only, and never through a link out of the project.

Standard library only, because hooks use it.
"""

from __future__ import annotations

import os

from lorelog.core.errors import StoreUnwritable
from lorelog.core.paths import is_below

FOLDER = ".lorelog"
GITIGNORE_TEXT = (
    "# Conversations with agents are kept here and stay out of the repository. Delete this file to share them.\n*\n"
)


def ignore_folder(folder: str) -> None:
    """Write a `.gitignore` that keeps a folder out of commits, unless there is one."""
    try:  # no look before: another process may create it in between
        with open(os.path.join(folder, ".gitignore"), "x", encoding="utf-8", opener=_open_private) as file:
            file.write(GITIGNORE_TEXT)
    except FileExistsError:
        return


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def create_project_folder(directory: str) -> str:
    """Create a project's folder with a `.gitignore` if it is missing, and return its path.

    Both appear at once: a folder without that file was left so by the user, who shares it by Git. Outside a repository the file does
    no harm, and the folder stays ignored if it becomes part of one. Raise StoreUnwritable if the folder cannot be created,
    or is a link out of the project.
    """
    folder = os.path.join(directory, FOLDER)
    new = ""
    try:
        if not os.path.lexists(folder):
            from tempfile import mkdtemp

            new = mkdtemp(prefix=f"{FOLDER}.", suffix=".new", dir=directory)
            ignore_folder(new)
            os.rename(new, folder)
    except OSError as error:
        if new:
            from shutil import rmtree

            rmtree(new, ignore_errors=True)
        if not os.path.lexists(folder):  # another process may have created it
            raise StoreUnwritable(
                f"{folder} cannot be created: {error.strerror or error}", hint="make the project writable"
            ) from error
    if not os.path.isdir(folder) or not is_below(os.path.realpath(folder), os.path.realpath(directory)):
        raise StoreUnwritable(
            f"{folder} is not a directory inside the project",
            hint="replace it with a directory; lorelog does not follow links out of a project",
        )
    return folder
