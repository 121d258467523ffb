"""What an installation would change, before anything is: files with what they hold now and what they would hold then.

A host's module says how its files look with us and without us. From that come all three verbs. Installing goes from what
is there without us to that with us, so that what an older version wrote is replaced and never doubled. A receipt keeps the
bytes from before; where a file is still as we left it, uninstalling gives those back exactly, and where others have changed
it since, only our entries go.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from lorelog.core.errors import ConfigError
from lorelog.core.paths import is_below
from lorelog.services.installing.writing import (
    keep_copy,
    prune_copies,
    read_file,
    real_target,
    remove_file,
    replace_file,
)

Edit = Callable[[str], str]

_OURS = re.compile(rb"""lorelog['"]* (?:hook|search|mcp)\b|"lorelog"|src/lorelog/""")
"""What a file of ours says in one place or another; that somebody else's has the word in it is not enough."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where we are: what an installation depends on."""

    user_home: Path
    home: Path
    """Ours: receipts, copies and OpenClaw's bundle are kept here."""
    command: str
    environment: Mapping[str, str]
    approve: bool = False


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file that is ours alone."""

    path: Path
    content: bytes


@dataclass(frozen=True, slots=True)
class SharedFile:
    """A file that belongs to the host's person, and in which some entries are ours."""

    path: Path
    add: Edit
    remove: Edit
    has: Callable[[str], bool]
    """Whether our entries are in a text, just as they are to be: wherever they stand, they need not be moved."""
    by_hand: str
    """What to write there where we cannot."""
    empty: str = ""
    """What the text of a missing file is taken for."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """All that an installation consists of."""

    roots: tuple[Path, ...]
    """The host's own folders, which may lie outside the home directory where the person chose that."""
    own: tuple[OwnFile, ...] = ()
    shared: tuple[SharedFile, ...] = ()

    @property
    def paths(self) -> frozenset[Path]:
        """Every file in which something of ours is to be."""
        return frozenset({*(one.path for one in self.own), *(one.path for one in self.shared)})


@dataclass(frozen=True, slots=True)
class Change:
    """One file: what it holds, and what it is to hold. None: there is none."""

    path: Path
    target: Path
    before: bytes | None
    after: bytes | None
    kept: bytes | None = None
    """What uninstalling is to give back, where it is known to the byte."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was installed: each file's digest as we left it, and the copy of what it was before."""

    at: float = 0.0
    command: str = ""
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


def plan_install(host: str, footprint: Footprint, setting: Setting) -> list[Change]:
    """Return what installing would change; nothing where all is in place."""
    receipt = read_receipt(setting.home, host)
    changes = [_own_change(one, footprint, setting, receipt) for one in footprint.own]
    changes += [_shared_change(one, footprint, setting, receipt) for one in footprint.shared]
    # What was installed into another folder of the host's (CODEX_HOME) is a place of its own, and stays.
    here = (*footprint.roots, setting.home)
    left = _leftovers(footprint, receipt)
    return [*changes, *(one for one in left if any(is_below(str(one.path), str(root)) for root in here))]


def plan_uninstall(host: str, footprint: Footprint, setting: Setting) -> list[Change]:
    """Return what uninstalling would change."""
    receipt = read_receipt(setting.home, host)
    borders = _borders(footprint, setting)
    changes = []
    for shared in footprint.shared:  # first: a configuration must not name what is gone already
        target = real_target(shared.path, borders)
        before = read_file(target)
        if before is not None:
            clean, existed = _without_us(shared, before, receipt)
            changes.append(Change(shared.path, target, before, clean if existed else None))
    for own in footprint.own:
        target = real_target(own.path, borders)
        before = read_file(target)
        if before is not None and _is_ours(own, before, receipt):
            changes.append(Change(own.path, target, before, None))
    return [*changes, *_leftovers(footprint, receipt)]


def apply_install(host: str, changes: Sequence[Change], setting: Setting) -> None:
    """Make the changes. The receipt and copies of what was there are written first: whatever happens, they are there."""
    copies = copies_folder(setting.home, host)
    setting.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    old = read_receipt(setting.home, host)
    planned = {str(change.path) for change in changes}
    files = {path: entry for path, entry in old.files.items() if path not in planned}
    folders = list(old.folders)
    for change in changes:
        if change.after is None:
            _keep_changed(change, old, copies)
            continue
        if change.before == change.after and str(change.path) in old.files:
            files[str(change.path)] = old.files[str(change.path)]
            continue
        copy = "" if change.kept is None else str(keep_copy(copies, change.target.name, change.kept))
        files[str(change.path)] = (_digest(change.after), copy)
        folders += [one for one in _missing_folders(change.target.parent) if one not in folders]
        if change.before not in {None, change.kept, change.after} and not _as_left(change, old):
            keep_copy(copies, change.target.name, change.before or b"")
    at = old.at if old.at and old.command == setting.command else time.time()
    _write_receipt(setting.home, host, Receipt(at, setting.command, files, tuple(folders)))
    for change in changes:
        _make(change)
    prune_copies(copies, [copy for _, copy in files.values()])


def apply_uninstall(host: str, changes: Sequence[Change], setting: Setting) -> None:
    """Make the changes, take away folders that we had made and that are empty now, and the receipt."""
    receipt = read_receipt(setting.home, host)
    copies = copies_folder(setting.home, host)
    for change in changes:
        _keep_changed(change, receipt, copies)
        _make(change)
    emptied = {str(change.target.parent) for change in changes if change.after is None}
    for folder in sorted({*receipt.folders, *emptied}, key=len, reverse=True):
        with suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106  # only where it is empty
    _receipt_path(setting.home, host).unlink(missing_ok=True)
    prune_copies(copies, [])


def differs(changes: Sequence[Change]) -> list[Change]:
    """Return the changes that change something."""
    return [one for one in changes if one.before != one.after]


def unified(change: Change) -> str:
    """Return a change as a unified diff."""
    before, after = (_lines(content) for content in (change.before, change.after))
    old = "/dev/null" if change.before is None else str(change.path)
    new = "/dev/null" if change.after is None else str(change.path)
    lines = difflib.unified_diff(before, after, old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def read_receipt(home: Path, host: str) -> Receipt:
    """Return what was installed; an empty receipt where nothing was, or nobody knows any more."""
    try:
        told = json.loads(_receipt_path(home, host).read_bytes())
        files = {str(path): (str(entry[0]), str(entry[1])) for path, entry in told["files"].items()}
        return Receipt(float(told["at"]), str(told["command"]), files, tuple(map(str, told["folders"])))
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        return Receipt()


def copies_folder(home: Path, host: str) -> Path:
    """Return where copies of a host's files are kept."""
    return home / "backups" / "hosts" / host


def _borders(footprint: Footprint, setting: Setting) -> tuple[Path, ...]:
    """Return the folders that no link may lead out of: the home, ours, and what the person chose outside of both.

    A host's usual folder is in the home; where it is a link to elsewhere, nobody has chosen that in so many words.
    """
    chosen = [root for root in footprint.roots if not is_below(str(root), str(setting.user_home))]
    return (setting.user_home, setting.home, *chosen)


def _own_change(own: OwnFile, footprint: Footprint, setting: Setting, receipt: Receipt) -> Change:
    target = real_target(own.path, _borders(footprint, setting))
    before = read_file(target)
    if before is not None and not _is_ours(own, before, receipt):
        raise ConfigError(f"{own.path} is there already, and not ours", hint="move it away, or give it another name")
    return Change(own.path, target, before, own.content)


def _shared_change(shared: SharedFile, footprint: Footprint, setting: Setting, receipt: Receipt) -> Change:
    target = real_target(shared.path, _borders(footprint, setting))
    before = read_file(target)
    if before is None:
        return Change(shared.path, target, None, _edited(shared, shared.add, b""))
    if _has_us(shared, before):
        return Change(shared.path, target, before, before)
    clean, existed = _without_us(shared, before, receipt)
    after = _edited(shared, shared.add, clean)
    return Change(shared.path, target, before, after, clean if existed else None)


def _without_us(shared: SharedFile, before: bytes, receipt: Receipt) -> tuple[bytes, bool]:
    """Return a file as it is without our entries, and whether it would be there at all."""
    digest, copy = receipt.files.get(str(shared.path), ("", ""))
    if digest == _digest(before):
        if not copy:
            return b"", False
        kept = read_file(Path(copy))
        if kept is not None:
            return kept, True
    clean = _edited(shared, shared.remove, before) if before.strip() else before
    made_by_us = bool(digest) and not copy
    return clean, not (made_by_us and _says_nothing(clean))


def _says_nothing(content: bytes) -> bool:
    return not content.translate(None, b" \t\r\n{}")


def _edited(shared: SharedFile, edit: Edit, content: bytes) -> bytes:
    """Change a text; its line ends stay as they are."""
    try:
        text = content.decode()
        ends = "\r\n" if "\r\n" in text and text == text.replace("\r\n", "\n").replace("\n", "\r\n") else "\n"
        told = text.replace(ends, "\n")
        return edit(told if told.strip() or not shared.empty else shared.empty).replace("\n", ends).encode()
    except ConfigError as error:
        raise ConfigError(f"{shared.path}: {error.message}", hint=_by_hand(shared, edit)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shared.path} cannot be understood: {error}", hint=_by_hand(shared, edit)) from None


def _by_hand(shared: SharedFile, edit: Edit) -> str:
    what = "take out yourself" if edit is shared.remove else "write there yourself"
    return f"nothing was changed; mend the file, or {what}: {shared.by_hand}"


def _has_us(shared: SharedFile, content: bytes) -> bool:
    found = False

    def look(text: str) -> str:
        nonlocal found
        found = shared.has(text)
        return text

    _edited(shared, look, content)
    return found


def _is_ours(own: OwnFile, content: bytes, receipt: Receipt) -> bool:
    """Say whether a file is one of ours, perhaps of another version: each of them calls us."""
    return content == own.content or str(own.path) in receipt.files or _OURS.search(content) is not None


def _leftovers(footprint: Footprint, receipt: Receipt) -> Iterator[Change]:
    """What we have installed and would not install now: files of an older version, and into another folder of the host's."""
    kinds = {one.path.name: one for one in footprint.shared}
    for path in map(Path, receipt.files):
        if path in footprint.paths or (before := read_file(path)) is None:
            continue
        target = Path(os.path.realpath(path))
        if path.name in kinds:  # the person's file, wherever it lies: only our entries go
            clean, existed = _without_us(replace(kinds[path.name], path=path), before, receipt)
            yield Change(path, target, before, clean if existed else None)
        elif not receipt.files[str(path)][1]:
            yield Change(path, target, before, None)


def _keep_changed(change: Change, receipt: Receipt, copies: Path) -> None:
    """Keep a copy of what goes, unless it is just what we had written."""
    if change.before not in {None, change.after} and not (change.after is None and _as_left(change, receipt)):
        keep_copy(copies, change.target.name, change.before or b"")


def _as_left(change: Change, receipt: Receipt) -> bool:
    """Say whether a file is just as we wrote it: nothing of the person's is in it that is not in an earlier copy."""
    return change.before is not None and receipt.files.get(str(change.path), ("", ""))[0] == _digest(change.before)


def _make(change: Change) -> None:
    if change.before == change.after:
        return
    if change.after is None:
        remove_file(change.target, change.before)
    else:
        replace_file(change.target, change.before, change.after)


def _missing_folders(folder: Path) -> list[str]:
    missing = []
    while not folder.exists():
        missing.append(str(folder))
        folder = folder.parent
    return missing


def _receipt_path(home: Path, host: str) -> Path:
    return home / "hosts" / f"{host}.json"


def _write_receipt(home: Path, host: str, receipt: Receipt) -> None:
    told = {"at": receipt.at, "command": receipt.command, "files": receipt.files, "folders": receipt.folders}
    path = _receipt_path(home, host)
    replace_file(path, read_file(path), (json.dumps(told, indent=2) + "\n").encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "replace").splitlines(keepends=True)
