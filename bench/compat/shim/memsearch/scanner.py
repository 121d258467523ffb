"""Which files are read. memsearch's `ignore_hidden=False` is the pattern `!.*`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lorelog.config.schema import SETTINGS
from lorelog.config.settings import coerce_value
from lorelog.core.errors import LorelogError
from lorelog.core.options import ScanOptions
from lorelog.ingest.files import scan


@dataclass
class ScannedFile:
    path: Path


def scan_paths(
    paths: Sequence[str | Path],
    *,
    ignore_hidden: bool = True,
    ignore_files: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> list[ScannedFile]:
    setting = next(setting for setting in SETTINGS if setting.key == "index.ignore_files")
    try:
        coerce_value(setting, list(ignore_files), "here")
    except LorelogError as error:
        raise ValueError(str(error).replace("without slashes", "without directory components")) from None
    hidden = () if ignore_hidden else ("!.*",)
    options = ScanOptions(exclude=(*hidden, *exclude), ignore_files=tuple(ignore_files))
    return [ScannedFile(Path(file.path)) for file in scan([str(path) for path in paths], options).files]


def should_index_path(path: Path, roots: Sequence[str | Path], *, ignore_files: Sequence[str] = ()) -> bool:
    return path.resolve() in [found.path for found in scan_paths(roots, ignore_files=ignore_files)]
