"""Receipts of forgotten text: what was removed, where it was searched for, and how to search again.

A receipt is `forgotten/<id>.json` in the tenant's folder, with the key of its digests in `<id>.key` beside it. A copy of
the receipt alone tells nothing about the text; without the key it cannot be verified either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lorelog.core.atomic_file import write_atomic
from lorelog.core.dataclasses import asdict, dataclass, field
from lorelog.core.errors import NotFound, StoreUnwritable, UsageError
from lorelog.core.grammar import plural
from lorelog.core.serializable import Serializable
from lorelog.services.forget.residues import Canaries, Residue, ResidueReport, find_residues
from lorelog.services.places.workspace import RECEIPT_FOLDER

_VERSION = 1
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(Serializable):
    """Proof that text was forgotten. It does not contain the text."""

    id: str
    at: str
    """UTC, ISO 8601."""
    selected: Mapping[str, int] = field(default_factory=dict)
    """What was forgotten, as counts by kind: memories, records, turns, …"""
    places: tuple[str, ...] = ()
    """Folders and files that were searched."""
    canaries: Canaries
    report: ResidueReport
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """Places that were not searched or cannot be changed, with the reason."""

    def __str__(self) -> str:
        """Return `forgotten: 0 residues in N files`, with what limits it."""
        return format_report(self.report, short=self.canaries.short, unreachable=len(self.unreachable))


def format_report(report: ResidueReport, *, short: int = 0, unreachable: int = 0) -> str:
    """Return a report in one line."""
    count = sum(residue.count for residue in report.residues)
    where = len({residue.path for residue in report.residues})
    files = f"{where:,} of {plural(report.files, 'file')}" if count else plural(report.files, "file")
    parts = [f"{'not ' if count else ''}forgotten: {plural(count, 'residue')} in {files}"]
    if report.unreadable:
        parts.append(f"{plural(len(report.unreadable), 'file')} could not be read")
    if unreachable:
        parts.append(f"{plural(unreachable, 'place')} out of reach")
    if short:
        parts.append(f"{plural(short, 'text')} too short to be verified later")
    return "; ".join(parts)


def write_receipt(tenant_folder: Path, receipt: Receipt) -> Path:
    """Write a receipt and its key, readable by their owner only, and return the receipt's path."""
    folder = tenant_folder / RECEIPT_FOLDER
    path = folder / f"{receipt.id}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path.with_suffix(".key"), receipt.canaries.key.hex().encode() + b"\n")
        write_atomic(path, json.dumps(receipt_to_json(receipt), ensure_ascii=False, indent=1).encode() + b"\n")
    except OSError as error:
        raise StoreUnwritable(
            f"{error.filename or path} cannot be written: {error.strerror}", hint="free some space and try again"
        ) from error
    return path


def read_receipt(path: Path) -> Receipt:
    """Read a receipt and its key. Raise NotFound, or UsageError for another file."""
    try:
        with path.open("rb") as file:
            values = json.loads(file.read(_MAX_BYTES))
        if not isinstance(values, dict) or values.get("version") != _VERSION:
            raise UsageError(f"{path} is not a receipt that this version can read", hint="see 'lorelog forget --help'")
        key = bytes.fromhex(path.with_suffix(".key").read_text("ascii").strip())
        return _receipt_from_json(values, key)
    except FileNotFoundError as error:
        raise NotFound(
            f"{error.filename} does not exist", hint="a receipt is verified where it was written, with its key file"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="make it a file that you can read") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{path} is not a receipt", hint="see 'lorelog forget --help'") from error


def find_receipt(tenant_folder: Path, name: str) -> Path:
    """Return the path of a receipt by its path, its id or the start of its id. Raise NotFound."""
    if name.endswith(".json") and Path(name).exists():
        return Path(name)
    folder = tenant_folder / RECEIPT_FOLDER
    matching = [path for path in sorted(folder.glob("*.json")) if name and path.stem.startswith(name)]
    if len(matching) != 1:
        problem = f"{len(matching)} receipts begin with {name!r}" if matching else f"there is no receipt {name!r}"
        raise NotFound(problem, hint=f"receipts are in {folder}")
    return matching[0]


def verify(receipt: Receipt, *, keep: Callable[[Path], bool] | None = None) -> ResidueReport:
    """Search the receipt's places again. A place that is gone holds nothing."""
    places = [path for place in receipt.places if (path := Path(place)).exists()]
    return find_residues(receipt.canaries, places, keep=keep) if keep else find_residues(receipt.canaries, places)


def receipt_to_json(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt as JSON, without its key."""
    return {
        "version": _VERSION,
        "id": receipt.id,
        "at": receipt.at,
        "text": str(receipt),
        "selected": dict(receipt.selected),
        "places": list(receipt.places),
        "files": receipt.report.files,
        "bytes": receipt.report.bytes,
        "residues": [asdict(residue) for residue in receipt.report.residues],
        "unreadable": list(receipt.report.unreadable),
        "unreachable": dict(receipt.unreachable),
        "canaries": receipt.canaries.to_json(),
    }


def _receipt_from_json(values: Mapping[str, Any], key: bytes) -> Receipt:
    residues = tuple(Residue(str(each["path"]), str(each["form"]), int(each["count"])) for each in values["residues"])
    return Receipt(
        id=str(values["id"]),
        at=str(values["at"]),
        selected={str(name): int(count) for name, count in values["selected"].items()},
        places=tuple(map(str, values["places"])),
        canaries=Canaries.from_json(values["canaries"], key),
        report=ResidueReport(
            int(values["files"]), int(values["bytes"]), residues, tuple(map(str, values["unreadable"]))
        ),
        unreachable={str(place): str(reason) for place, reason in values["unreachable"].items()},
    )
