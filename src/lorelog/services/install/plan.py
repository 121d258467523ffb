"""Plan the file changes of an installation, show them as a diff, and apply them.

A host's manifest describes its files with and without our entries; installing, updating and uninstalling follow from
that. Installing removes our existing entries first, so that those of an older version are replaced and not duplicated.
A receipt names a copy of each file as it was before: uninstalling restores it byte for byte if the file is unchanged
since the installation, otherwise it removes only our entries.

A user's file is replaced as a whole or not at all, and keeps its mode and owner. If it is a symbolic link, its target
is replaced, so that a configuration in a dotfiles directory stays there; a target outside the user's home directory is
an error.
"""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from lorelog.core.atomic_file import AtomicFile, sync_folder
from lorelog.core.errors import ConfigError
from lorelog.core.ids import sha256
from lorelog.core.paths import is_below
from lorelog.core.processes import find_on_path
from lorelog.hosts import TRANSCRIPT_DATABASES, host_data_folder

MAX_BYTES = 50_000_000
"""A larger file is not a configuration."""
_MAX_BACKUPS = 20
"""Copies kept for each host."""


def read_file(path: Path) -> bytes | None:
    """Return a file's content, or None if it does not exist."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # a pipe would block
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(
                    f"{path} is not a regular file",
                    hint="nothing was changed; replace it with a regular file, or remove it",
                )
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="nothing was changed; make it readable, or move it away",
        ) from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path} is too large to be a configuration", hint="nothing was changed")
    return content


def resolve_target(path: Path, allowed: Iterable[Path]) -> Path:
    """Return the file that a path leads to. Raise ConfigError if a link leads out of all `allowed` folders."""
    target = Path(os.path.realpath(path))
    if any(is_below(str(target), os.path.realpath(folder)) for folder in allowed):
        return target
    raise ConfigError(
        f"{path} is a link to {target}, outside your home directory",
        hint="lorelog does not follow such links; make the change by hand, or replace the link by a file",
    )


def replace_unchanged(target: Path, before: bytes | None, after: bytes) -> None:
    """Replace `before` by `after`. Raise ConfigError if that fails, or if the file has changed meanwhile.

    Read permissions of a new file follow its folder.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o644 & stat.S_IMODE(target.parent.stat().st_mode) | 0o600
        with AtomicFile(target, mode=mode, keep_mode=True) as file:
            file.write(after)
            _check_unchanged(target, before)
    except OSError as error:
        raise _write_error(target, error) from None


def remove_file(target: Path, before: bytes | None) -> None:
    """Delete a file if it is unchanged."""
    if before is None:
        return
    try:
        _check_unchanged(target, before)
        target.unlink()
        sync_folder(target.parent)
    except OSError as error:
        raise _write_error(target, error) from None


def backup_copy(folder: Path, name: str, content: bytes) -> Path:
    """Save a copy of a file's content, readable by the owner only, and return its path."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    copy = folder / f"{stamp}-{name}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = 0
        while copy.exists() and copy.read_bytes() != content:
            number += 1
            copy = folder / f"{stamp}-{number}-{name}"
        replace_unchanged(copy, read_file(copy), content)
    except OSError as error:
        raise ConfigError(
            f"a copy of {name} cannot be saved in {folder}: {error.strerror or error}", hint="nothing was changed"
        ) from None
    return copy


def prune_backups(folder: Path, needed: Iterable[str]) -> None:
    """Keep the newest copies, and those that are needed to undo an installation."""
    with suppress(OSError):
        for copy in sorted(folder.iterdir(), reverse=True)[_MAX_BACKUPS:]:
            if str(copy) not in set(needed):
                copy.unlink()


def _check_unchanged(target: Path, before: bytes | None) -> None:
    if read_file(target) != before:
        raise ConfigError(f"{target} was changed meanwhile by another program", hint="run the command again")


def _write_error(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{path} cannot be written: {error.strerror or error}",
        hint="the file is unchanged; make it writable, or make the changes that --dry-run shows by hand",
    )


NAME = "lorelog"
"""Our name in hosts, and the program that they call."""
TextEdit = Callable[[str], str]

_OUR_MARK = rb"""lorelog['"]* (?:hook|search|mcp)\b|"lorelog"|src/lorelog/"""
"""Pattern that occurs in every version of our files; the word alone is not enough."""


class InstallContext(Struct, frozen=True):
    """Everything an installation depends on."""

    user_home: Path
    home: Path
    """Our home: receipts, copies and OpenClaw's bundle are kept here."""
    command: str
    environment: Mapping[str, str]
    approve: bool = False
    statusline: bool = False
    """Whether Claude Code's status line shall be ours."""


def resolve_command(environment: Mapping[str, str]) -> str:
    """Return `lorelog` if PATH leads to this installation, else its absolute path.

    A program in a virtual environment is named by its path: the host may be started where the environment is not active.
    """
    on_path = find_on_path(NAME, environment.get("PATH", os.defpath))
    program = _find_program(environment)
    if program is None:
        return NAME
    if not on_path or os.path.realpath(on_path) != os.path.realpath(program):
        return str(program)
    in_venv = sys.prefix != sys.base_prefix and Path(on_path).absolute().parent == Path(sys.prefix).absolute() / "bin"
    return str(program) if in_venv else NAME


def _find_program(environment: Mapping[str, str]) -> Path | None:
    """Return the program that runs; in the daemon, the one that asked: clients name it as shells do."""
    named = (Path(sys.argv[0]), Path(environment.get("_", "")))
    started = next((path for path in named if path.name == NAME), named[0])
    beside = Path(sys.executable).parent / NAME
    candidates = [started.absolute()] if started.name == NAME else []
    return next(
        (candidate for candidate in (*candidates, beside) if os.access(candidate, os.X_OK) and candidate.is_file()),
        None,
    )


def host_root(host: str, environment: Mapping[str, str], user_home: Path) -> Path:
    """Return the folder of a host's own configuration. OpenCode and its fork keep their data elsewhere."""
    if host in TRANSCRIPT_DATABASES:
        return (_environment_path(environment, "XDG_CONFIG_HOME") or user_home / ".config") / host
    return Path(host_data_folder(host, environment, str(user_home)))


def openclaw_config(environment: Mapping[str, str], user_home: Path) -> Path:
    """Return the path of OpenClaw's configuration."""
    root = host_root("openclaw", environment, user_home)
    return _environment_path(environment, "OPENCLAW_CONFIG_PATH") or root / "openclaw.json"


def _environment_path(environment: Mapping[str, str], name: str) -> Path | None:
    value = environment.get(name)
    return Path(value).expanduser() if value else None


class SharedFile(Struct, frozen=True, kw_only=True):
    """A file of the user in which some entries are ours."""

    path: Path
    add: TextEdit
    remove: TextEdit
    contains_ours: Callable[[str], bool]
    """Returns whether a text holds our current entries; they need not be moved."""
    manual_text: Callable[[], str]
    """Returns what the user can write by hand if the edit fails."""
    empty_text: str = ""
    """Text assumed for a missing file."""


class HostManifest(Struct, frozen=True):
    """All files of an installation."""

    roots: tuple[Path, ...]
    """The host's own folders, which may be outside the home directory if the user chose so."""
    own_files: Mapping[Path, bytes] = field(default_factory=dict)
    """Files that belong to us, with their contents."""
    shared_files: tuple[SharedFile, ...] = ()

    @property
    def paths(self) -> frozenset[Path]:
        """All paths that contain something of ours."""
        return frozenset([*self.own_files, *(shared.path for shared in self.shared_files)])


class InstallChange(Struct, frozen=True):
    """Old and new content of one file; None if it does not exist."""

    path: Path
    target: Path
    before: bytes | None
    after: bytes | None
    restore_content: bytes | None = None
    """Content that uninstalling restores, if known."""

    @property
    def kind(self) -> str:
        """One of `unchanged`, `create`, `update` or `delete`."""
        if self.before == self.after:
            return "unchanged"
        return "create" if self.before is None else "delete" if self.after is None else "update"

    def apply(self) -> None:
        """Write the change, unless the file was changed meanwhile."""
        if self.before == self.after:
            return
        if self.after is None:
            remove_file(self.target, self.before)
        else:
            replace_unchanged(self.target, self.before, self.after)


class InstallReceipt(Struct, frozen=True):
    """What was installed: each file's digest as written, and the copy of its original."""

    at: float = 0.0
    command: str = ""
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


def plan_install(host: str, manifest: HostManifest, context: InstallContext) -> list[InstallChange]:
    """Return the changes of an installation; without effect if everything is in place."""
    receipt = read_receipt(context.home, host)
    allowed = _allowed_folders(manifest, context)
    changes = []
    for path, content in manifest.own_files.items():
        target = resolve_target(path, allowed)
        before = read_file(target)
        if before not in (None, content) and not _is_ours(path, before or b"", receipt):
            raise ConfigError(f"{path} exists already and is not ours", hint="move or rename it")
        changes.append(InstallChange(path, target, before, content))
    for shared in manifest.shared_files:
        target = resolve_target(shared.path, allowed)
        before = read_file(target)
        after, clean, existed = before, b"", False
        if before is None or not _contains_ours(shared, before):
            clean, existed = (b"", False) if before is None else _strip_our_entries(shared, before, receipt)
            after = _apply_edit(shared, shared.add, clean)
        changes.append(InstallChange(shared.path, target, before, after, clean if existed else None))
    # An installation in another folder of the host (CODEX_HOME) stays.
    roots = (*manifest.roots, context.home)
    leftovers = _plan_leftovers(manifest, receipt)
    return [*changes, *(change for change in leftovers if any(is_below(str(change.path), str(root)) for root in roots))]


def plan_uninstall(host: str, manifest: HostManifest, context: InstallContext) -> list[InstallChange]:
    receipt = read_receipt(context.home, host)
    allowed = _allowed_folders(manifest, context)
    changes = []
    for shared in manifest.shared_files:  # first: a configuration must not name a deleted file
        target = resolve_target(shared.path, allowed)
        before = read_file(target)
        if before is not None:
            clean, existed = _strip_our_entries(shared, before, receipt)
            changes.append(InstallChange(shared.path, target, before, clean if existed else None))
    for path, content in manifest.own_files.items():
        target = resolve_target(path, allowed)
        before = read_file(target)
        if before is not None and (before == content or _is_ours(path, before, receipt)):
            changes.append(InstallChange(path, target, before, None))
    return [*changes, *_plan_leftovers(manifest, receipt)]


def apply_install(host: str, changes: Sequence[InstallChange], context: InstallContext) -> None:
    """Make all changes, or none if one fails. Receipt and copies are written first, so that they exist after a crash."""
    copies = backup_folder(context.home, host)
    try:
        context.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{context.home} cannot be created: {error.strerror or error}",
            hint="nothing was changed; make its parent writable, or set LORELOG_HOME to another folder",
        ) from None
    old = read_receipt(context.home, host)
    planned = {str(change.path) for change in changes}
    files = {path: entry for path, entry in old.files.items() if path not in planned}
    folders = list(old.folders)
    # Two hosts may share a folder, and the last one removes it.
    receipts = (read_receipt(context.home, path.stem) for path in (context.home / "hosts").glob("*.json"))
    shared = {folder for receipt in receipts for folder in receipt.folders}
    for change in changes:
        if change.after is None:
            _backup_changed(change, old, copies)
            continue
        if change.before == change.after and str(change.path) in old.files:
            files[str(change.path)] = old.files[str(change.path)]
            continue
        original = change.restore_content
        copy = "" if original is None else str(backup_copy(copies, change.target.name, original))
        files[str(change.path)] = (_digest(change.after), copy)
        parents = [str(parent) for parent in change.target.parents if str(parent) in shared]
        missing = [str(parent) for parent in change.target.parents if not parent.exists()]
        folders += [folder for folder in (*missing, *parents) if folder not in folders]
        if change.before not in {None, original, change.after} and not _is_unmodified(change, old):
            backup_copy(copies, change.target.name, change.before or b"")
    at = old.at if old.at and old.command == context.command else time.time()
    _write_receipt(context.home, host, InstallReceipt(at, context.command, files, tuple(folders)))
    applied: list[InstallChange] = []
    try:
        for change in changes:
            change.apply()
            applied.append(change)
    except ConfigError:
        _revert(host, applied, old, context, [folder for folder in folders if folder not in old.folders])
        raise
    prune_backups(copies, [copy for _, copy in files.values()])


def _revert(
    host: str, applied: Sequence[InstallChange], old: InstallReceipt, context: InstallContext, created: Sequence[str]
) -> None:
    """Undo the changes of an installation that failed, as far as possible."""
    for change in reversed(applied):
        with suppress(ConfigError):
            replace(change, before=change.after, after=change.before).apply()
    for folder in sorted(created, key=len, reverse=True):
        with suppress(OSError):
            Path(folder).rmdir()  # only if it is empty
    if old.files:
        with suppress(ConfigError):
            _write_receipt(context.home, host, old)
    else:
        _receipt_path(context.home, host).unlink(missing_ok=True)


def apply_uninstall(host: str, changes: Sequence[InstallChange], context: InstallContext) -> None:
    """Make the changes, and remove the receipt and the folders that we created and that are empty now."""
    receipt = read_receipt(context.home, host)
    copies = backup_folder(context.home, host)
    for change in changes:
        _backup_changed(change, receipt, copies)
        change.apply()
    emptied = {str(change.target.parent) for change in changes if change.after is None}
    for folder in sorted({*receipt.folders, *emptied}, key=len, reverse=True):
        with suppress(OSError):
            Path(folder).rmdir()  # only if it is empty
    _receipt_path(context.home, host).unlink(missing_ok=True)
    prune_backups(copies, [])


def effective_changes(changes: Sequence[InstallChange]) -> list[InstallChange]:
    return [change for change in changes if change.before != change.after]


def format_diff(change: InstallChange) -> str:
    import difflib

    contents = (change.before or b"", change.after or b"")
    before, after = (content.decode("utf-8", "replace").splitlines(keepends=True) for content in contents)
    old = "/dev/null" if change.before is None else str(change.path)
    new = "/dev/null" if change.after is None else str(change.path)
    lines = difflib.unified_diff(before, after, old, new)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def read_receipt(home: Path, host: str) -> InstallReceipt:
    """Return the receipt of a host; empty if there is none or it is malformed."""
    try:
        return msgspec.json.decode(_receipt_path(home, host).read_bytes(), type=InstallReceipt)
    except (OSError, ValueError, msgspec.DecodeError):
        return InstallReceipt()


def backup_folder(home: Path, host: str) -> Path:
    """Return the folder of a host's copies."""
    return home / "backups" / "hosts" / host


def _allowed_folders(manifest: HostManifest, context: InstallContext) -> tuple[Path, ...]:
    """Return the folders that no link may leave: the user's home, ours, and host folders the user set outside of both.

    A host's default folder is in the home; if that is a link out of it, the user has not chosen this explicitly.
    """
    chosen = [root for root in manifest.roots if not is_below(str(root), str(context.user_home))]
    return (context.user_home, context.home, *chosen)


def _contains_ours(shared: SharedFile, content: bytes) -> bool:
    return bool(_apply_edit(shared, lambda text: "yes" if shared.contains_ours(text) else "", content))


def _strip_our_entries(shared: SharedFile, before: bytes, receipt: InstallReceipt) -> tuple[bytes, bool]:
    """Return a file without our entries, and whether it would exist at all."""
    digest, copy = receipt.files.get(str(shared.path), ("", ""))
    if digest == _digest(before):
        if not copy:
            return b"", False
        kept = read_file(Path(copy))
        if kept is not None:
            return kept, True
    clean = _apply_edit(shared, shared.remove, before) if before.strip() else before
    made_by_us = bool(digest) and not copy
    return clean, not made_by_us or bool(clean.translate(None, b" \t\r\n{}"))


def _apply_edit(shared: SharedFile, edit: TextEdit, content: bytes) -> bytes:
    """Edit a text and keep its line endings."""
    try:
        text = content.decode()
        ends = "\r\n" if "\r\n" in text and text == text.replace("\r\n", "\n").replace("\n", "\r\n") else "\n"
        unix = text.replace(ends, "\n")
        return edit(unix if unix.strip() or not shared.empty_text else shared.empty_text).replace("\n", ends).encode()
    except ConfigError as error:
        raise ConfigError(f"{shared.path}: {error.message}", hint=_manual_hint(shared, edit)) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{shared.path} cannot be parsed: {error}", hint=_manual_hint(shared, edit)) from None


def _manual_hint(shared: SharedFile, edit: TextEdit) -> str:
    what = "remove by hand" if edit is shared.remove else "add by hand"
    return f"nothing was changed; correct the file, or {what}: {shared.manual_text()}"


def _is_ours(path: Path, content: bytes, receipt: InstallReceipt) -> bool:
    """Return whether a file is ours, perhaps of another version: each of them calls lorelog."""
    return str(path) in receipt.files or re.search(_OUR_MARK, content) is not None


def _plan_leftovers(manifest: HostManifest, receipt: InstallReceipt) -> Iterator[InstallChange]:
    """Yield removals of what we no longer install: files of an older version, or in another folder of the host."""
    shared_by_name = {shared_file.path.name: shared_file for shared_file in manifest.shared_files}
    for path in map(Path, receipt.files):
        if path in manifest.paths or (before := read_file(path)) is None:
            continue
        target = Path(os.path.realpath(path))
        if path.name in shared_by_name:  # a user's file: remove only our entries
            clean, existed = _strip_our_entries(replace(shared_by_name[path.name], path=path), before, receipt)
            yield InstallChange(path, target, before, clean if existed else None)
        elif not receipt.files[str(path)][1]:
            yield InstallChange(path, target, before, None)


def _backup_changed(change: InstallChange, receipt: InstallReceipt, copies: Path) -> None:
    """Save a copy of a file, unless it is exactly as we wrote it."""
    if change.before not in {None, change.after} and not (change.after is None and _is_unmodified(change, receipt)):
        backup_copy(copies, change.target.name, change.before or b"")


def _is_unmodified(change: InstallChange, receipt: InstallReceipt) -> bool:
    """Return whether a file is exactly as we wrote it, without changes of the user."""
    return change.before is not None and receipt.files.get(str(change.path), ("", ""))[0] == _digest(change.before)


def _receipt_path(home: Path, host: str) -> Path:
    return home / "hosts" / f"{host}.json"


def _write_receipt(home: Path, host: str, receipt: InstallReceipt) -> None:
    path = _receipt_path(home, host)
    replace_unchanged(path, read_file(path), msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n")


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()
