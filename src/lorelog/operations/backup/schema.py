"""Requests and replies of `backup.*` and `memory.export`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from lorelog.operations.replies import OperationReply
from lorelog.operations.requests import OperationRequest, Path, Since

ExportFormat = Literal["markdown", "jsonl"]


class BackupFileRequest(OperationRequest, frozen=True, kw_only=True):
    """A backup."""

    file: Annotated[
        Path, Meta(description="Path of the backup, usually NAME.tar.gz, relative to the caller's directory.")
    ]


class BackupRequest(BackupFileRequest, frozen=True, kw_only=True):
    """Where to write a backup, and what is in it."""

    with_keys: Annotated[bool, Meta(description="Include the private keys that sign records.")] = False
    dry_run: Annotated[bool, Meta(description="List what would be in it, and write nothing.")] = False


class RestoreRequest(OperationRequest, frozen=True, kw_only=True):
    """A backup to restore, or the last restore to undo."""

    file: Annotated[Path | None, Meta(description="Path of the backup; relative to the caller's directory.")] = None
    project_map: Annotated[
        Mapping[str, str], Meta(description="Where projects of the backup are now: old directory to new one.")
    ] = {}
    dry_run: Annotated[bool, Meta(description="Report what would be done, and change nothing.")] = False
    undo: Annotated[
        bool, Meta(description="Put back the files that the last restore changed, unless they were changed again.")
    ] = False


class ExportRequest(OperationRequest, frozen=True, kw_only=True):
    """What to export, and how."""

    format: Annotated[ExportFormat, Meta(description="markdown: memories; jsonl: memories and records.")] = "markdown"
    out: Annotated[
        Path | None, Meta(description="File to write, or an existing directory. Without it, the reply has the text.")
    ] = None
    all_projects: Annotated[bool, Meta(description="Export the memories of all projects, and global ones.")] = False
    with_global: Annotated[bool, Meta(description="Also export global memories, which belong to no project.")] = False
    since: Since = None


class BackupReply(OperationReply, frozen=True, kw_only=True):
    """What a backup holds."""

    file: str
    created_at: str
    lorelog: str
    """The version that wrote it."""
    home: str
    dry_run: bool
    with_keys: bool
    keys_left_out: int
    """Private keys of this home that are not in it."""
    tenants: tuple[str, ...]
    projects: tuple[str, ...]
    files: tuple[str, ...]
    journals: int
    bytes: int
    """Sum of the files, uncompressed; 0 for a dry run."""
    problems: tuple[str, ...]
    """Files that could not be read, and are not in it."""


class ExportReply(OperationReply, frozen=True, kw_only=True):
    """What was exported."""

    path: str
    """The file; empty if the text is in the reply."""
    format: ExportFormat
    memories: int
    records: int
    text: str
