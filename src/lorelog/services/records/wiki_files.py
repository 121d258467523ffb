"""A wiki on disk: what is new is written, what is as it was is left alone, and what is not ours is never touched.

A page of ours is known by its mark. One that a person has changed is put aside before it is written anew: a wiki is compiled,
but what somebody typed is not ours to throw away.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from lorelog.core.errors import StoreUnwritable
from lorelog.core.paths import is_below
from lorelog.core.record import DIGEST_MARK
from lorelog.services.place import DEFAULT_TENANT, TENANTS, Place
from lorelog.services.records.wiki import hash_of

_MARK = re.compile(re.escape(DIGEST_MARK) + r" page:(\S+) sha256:([0-9a-f]{64}) -->\n")
_FOLDERS = ("", "tasks", "pages")
EDITED = ".edited"
"""What a page that somebody had changed ends in, once it is put aside."""


@dataclass(frozen=True, slots=True)
class PageOnDisk:
    """A page of ours, as it lies there."""

    name: str
    text: str
    edited: bool
    """Somebody has changed it since it was written."""


@dataclass(slots=True)
class Built:
    """What was done to a folder."""

    folder: str
    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    put_aside: list[str] = field(default_factory=list)
    """Pages that somebody had changed: what they had made of them lies beside, as `NAME.edited`."""
    left_alone: list[str] = field(default_factory=list)
    """Files that are not ours and lie where a page should."""


def usual_folder(place: Place) -> Path:
    """Return where a project's wiki lies. Raise StoreUnwritable when a link would lead it elsewhere.

    A repository is someone else's work: a linked folder in it must not choose where we write.
    """
    own = Path(".lorelog") if place.tenant == DEFAULT_TENANT else Path(TENANTS) / place.tenant
    folder = Path(place.project.id) / own / "wiki"
    if not is_below(os.path.realpath(folder), os.path.realpath(place.project.id)):
        raise StoreUnwritable(
            f"{folder} is a link that leads out of {place.project.id}", hint="make it a directory, or use --output"
        )
    return folder


def write_pages(pages: Mapping[str, str], folder: Path) -> Built:
    """Bring a folder up to date with pages. Raise StoreUnwritable where that cannot be done."""
    built = Built(str(folder))
    try:
        found = {one.name: one for one in pages_in(folder)}
        for name, text in pages.items():
            _write(folder, name, text, found.get(name), built)
        for name, page in found.items():
            if name not in pages:
                _put_aside(folder, page, built)
                _inside(folder, name).unlink(missing_ok=True)
                built.removed.append(name)
    except OSError as error:
        raise StoreUnwritable(
            f"{error.filename or folder} cannot be written: {error.strerror or error}",
            hint="make it writable, or name another folder: --output DIR",
        ) from error
    return built


def pages_in(folder: Path) -> Iterator[PageOnDisk]:
    """Yield the pages of ours that lie in a folder; files of others are passed over."""
    for below in _FOLDERS:
        with suppress(FileNotFoundError, NotADirectoryError):
            for path in sorted((folder / below).iterdir()):
                name = f"{below}/{path.name}" if below else path.name
                page = _read(folder, name) if path.suffix == ".md" else None
                if page is not None:
                    yield page


def _read(folder: Path, name: str) -> PageOnDisk | None:
    path = folder / name
    if path.is_symlink() or not path.is_file():
        return None
    text = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    mark = _MARK.match(text)
    if mark is None or mark[1] != name:
        return None
    return PageOnDisk(name, text, hash_of(text[mark.end() :]) != mark[2])


def _write(folder: Path, name: str, text: str, there: PageOnDisk | None, built: Built) -> None:
    path = _inside(folder, name)
    if there is not None and there.text == text:
        built.unchanged.append(name)
        return
    if there is None and os.path.lexists(path):
        built.left_alone.append(name)
        return
    if there is not None:
        _put_aside(folder, there, built)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        Path(beside).chmod(0o644)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    built.written.append(name)


def _put_aside(folder: Path, page: PageOnDisk, built: Built) -> None:
    if page.edited:
        path = _inside(folder, page.name)
        path.replace(path.with_name(path.name + EDITED))
        built.put_aside.append(page.name)


def _inside(folder: Path, name: str) -> Path:
    """Return where a page lies. Raise StoreUnwritable when a link would lead it elsewhere."""
    path = folder / name
    if not is_below(os.path.realpath(path.parent), os.path.realpath(folder)):
        raise StoreUnwritable(f"{path.parent} is a link that leads out of {folder}", hint="make it a directory")
    return path
