"""Receipts of forgotten text: what was removed, where it was searched for, and how to search again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lorelog.services.forget.residues import Canaries, ResidueReport

RECEIPT_FOLDER = "forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
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
        """Return `forgotten: 0 residues in N files`."""
        raise NotImplementedError


def write_receipt(tenant_folder: Path, receipt: Receipt) -> Path:
    """Write a receipt and its key, readable by their owner only, and return the receipt's path."""
    raise NotImplementedError


def read_receipt(path: Path) -> Receipt:
    """Read a receipt and its key. Raise NotFound, or UsageError for another file."""
    raise NotImplementedError


def find_receipt(tenant_folder: Path, name: str) -> Path:
    """Return the path of a receipt by its path, its id or the start of its id. Raise NotFound."""
    raise NotImplementedError


def verify(receipt: Receipt, *, keep: Callable[[Path], bool] | None = None) -> ResidueReport:
    """Search the receipt's places again."""
    raise NotImplementedError
