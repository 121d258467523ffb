"""The two files of a forget: the plan, written before anything changes, and the receipt, written when the proof is done.

A plan holds ids, paths and digests, not the text. Every step can be repeated, so an interrupted forget is completed by
running all steps of its plan again.

A receipt is `forgotten/<id>.json` in the tenant's folder. `<id>.key` beside it has the key of its digests, and the signature
(HMAC) of the whole file by this key. A copy of the receipt alone tells nothing about the text; without the key it cannot be
verified either.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct, field, json
from msgspec.structs import replace

from lorelog.core.atomic_file import OpenDescriptor, Writing, open_to_append, write_atomic
from lorelog.core.errors import NotFound, StoreDamaged, UsageError, plural
from lorelog.core.processes import acquire_file_lock
from lorelog.core.serializable import Serializable
from lorelog.services.forget.residues import Canaries, Quotes, ResidueReport
from lorelog.services.places.workspace import PLAN_SUFFIX, RECEIPT_FOLDER

_MAX_BYTES = 64 << 20
_UNCHANGED_HINT = "nothing was changed; make the folder writable"


class ForgottenSection(Serializable, Struct, frozen=True, kw_only=True):
    """A section that is erased from a file, or a summary that is reworded without it."""

    memory: str
    """The memory's id; empty for a section without one."""
    source: str
    start_line: int = 0
    end_line: int = 0
    day: str = ""
    action: str
    """`cut`, or `reword` for a summary that keeps the lines about other sources."""
    preview: str = ""
    """Its first line, for the dry run; never stored."""


class ForgottenEntry(ForgottenSection, frozen=True, kw_only=True):
    """A section to forget, as the plan has it."""

    key: str
    """As in its tombstone."""
    project: str
    root: str
    ids: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()
    """Content hashes of its chunks."""
    session: str = ""
    transcript: str = ""

    def section(self) -> ForgottenSection:
        """Return the part that a reply shows."""
        return ForgottenSection(**{name: getattr(self, name) for name in ForgottenSection.__struct_fields__})


class ForgetPlan(Struct, frozen=True, kw_only=True):
    """Everything that the steps of one forget need."""

    version: Literal[2] = 2
    id: str
    at: str
    entries: tuple[ForgottenEntry, ...] = ()
    records: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    """Sessions of which all captured turns are forgotten."""
    vector_keys: tuple[str, ...] = ()
    quotes: Quotes
    canaries: Canaries
    selected: Mapping[str, int] = field(default_factory=dict)
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Places that hold the text and stay as they are, with the reason."""
    transcripts: tuple[str, ...] = ()
    """Conversations of hosts that are deleted, because the user asked for it."""
    left_transcripts: tuple[str, ...] = ()
    """Those that our own capture read, too, and that stay."""
    guards: tuple[str, ...] = ()
    """Ids of guards that contain it."""

    @property
    def names(self) -> frozenset[str]:
        """Ids under which other files refer to what is forgotten."""
        cut = [entry for entry in self.entries if entry.action == "cut"]
        ids = [name for entry in cut for name in (entry.memory, *entry.ids, *entry.contents)]
        return frozenset(filter(None, (*ids, *self.records)))

    @property
    def memories(self) -> frozenset[str]:
        """Ids of the memories that are cut."""
        return frozenset(entry.memory for entry in self.entries if entry.memory and entry.action == "cut")

    @property
    def contents(self) -> frozenset[str]:
        """Content hashes that summaries may cover."""
        return frozenset(content for entry in self.entries if entry.action == "cut" for content in entry.contents)


@contextmanager
def _writable_folder(tenant_folder: Path, hint: str) -> Iterator[Path]:
    """Yield the folder of plans and receipts. Raise StoreUnwritable if the block cannot write there."""
    folder = tenant_folder / RECEIPT_FOLDER
    with Writing(folder, hint=hint, names_file=True):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield folder


def write_plan(tenant_folder: Path, plan: ForgetPlan) -> Path:
    """Write a plan durably, readable by its owner only."""
    entries = tuple(replace(entry, preview="") for entry in plan.entries)
    stored = replace(plan, entries=entries, canaries=plan.canaries.without_text(with_key=True))
    with _writable_folder(tenant_folder, _UNCHANGED_HINT) as folder:
        path = folder / f"{plan.id}{PLAN_SUFFIX}"
        write_atomic(path, json.encode(stored))
    return path


def read_plan(path: Path) -> ForgetPlan:
    """Read a plan. Raise StoreDamaged if it is not one."""
    try:
        return json.decode(path.read_bytes(), type=ForgetPlan)
    except (OSError, ValueError) as error:
        raise StoreDamaged(
            f"{path} cannot be read: {error}",
            hint="a forget was interrupted and cannot be completed: repeat it, then delete this file",
        ) from error


def pending_plans(folder: Path) -> list[Path]:
    """Return the plans of interrupted forgets, oldest first."""
    return sorted((folder / RECEIPT_FOLDER).glob(f"*{PLAN_SUFFIX}"))


@contextmanager
def plan_lock(folder: Path, wait_s: float) -> Iterator[bool]:
    """Yield True while holding the lock of a tenant's plans; False if another thread or process holds it for too long."""
    with _writable_folder(folder, _UNCHANGED_HINT) as plans:
        descriptor = open_to_append(plans / "lock")
    with OpenDescriptor(descriptor):
        yield acquire_file_lock(descriptor, wait_s)


class Receipt(ResidueReport, frozen=True, kw_only=True):
    """Proof that text was forgotten, with the report of the search. It does not contain the text."""

    version: Literal[1] = 1
    id: str
    at: str
    """UTC, ISO 8601."""
    text: str = ""
    """`forgotten: 0 residues in N files`, with what limits it."""
    selected: Mapping[str, int] = field(default_factory=dict)
    """What was forgotten, as counts by kind: memories, records, turns, …"""
    places: tuple[str, ...] = ()
    """Folders and files that were searched."""
    unreached: Mapping[str, str] = field(default_factory=dict)
    """Places that were not searched or cannot be changed, with the reason."""
    left_transcripts: tuple[str, ...] = ()
    """Conversations of hosts that our own capture read; they are deleted on request."""
    canaries: Canaries


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
    with _writable_folder(tenant_folder, "free some space and try again") as folder:
        path = folder / f"{receipt.id}.json"
        stored = replace(receipt, canaries=receipt.canaries.without_text(with_key=False))
        content, key = json.format(json.encode(stored), indent=1) + b"\n", receipt.canaries.key
        write_atomic(path.with_suffix(".key"), f"{key} {_sign(content, key)}\n".encode())
        write_atomic(path, content)
    return path


def _sign(content: bytes, key: str) -> str:
    return hmac.digest(bytes.fromhex(key), content, "sha256").hex()


def read_receipt(path: Path) -> Receipt:
    """Read a receipt and its key. Raise NotFound, UsageError for another file, or StoreDamaged if it was changed."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
        receipt = json.decode(content, type=Receipt)
        key, _, signature = path.with_suffix(".key").read_text("ascii").strip().partition(" ")
        is_signed = hmac.compare_digest(_sign(content, key), signature)
    except FileNotFoundError as error:
        raise NotFound(
            f"{error.filename} does not exist", hint="a receipt is verified where it was written, with its key file"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="make it a file that you can read") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a receipt that this version can read", hint="see 'lorelog forget --help'"
        ) from error
    if not is_signed:
        problem = "was changed after it was written" if signature else "is of an older version, which did not sign it"
        raise StoreDamaged(
            f"{path} proves nothing: it {problem}", hint="'lorelog forget --match TEXT --dry-run' searches for the text"
        )
    return replace(receipt, canaries=replace(receipt.canaries, key=key))


def find_receipt(tenant_folder: Path, name: str) -> Path:
    """Return the path of a receipt by its path, its id or the start of its id; `last` is the newest. Raise NotFound."""
    if name.endswith(".json") and Path(name).exists():
        return Path(name)
    folder = tenant_folder / RECEIPT_FOLDER
    receipts = sorted(folder.glob("*.json"))  # their ids are in order of time
    if name == "last":
        if not receipts:
            raise NotFound("nothing was forgotten yet", hint="'lorelog forget' writes a receipt")
        return receipts[-1]
    matching = [path for path in receipts if name and path.stem.startswith(name)]
    if len(matching) != 1:
        problem = f"{len(matching)} receipts begin with {name!r}" if matching else f"there is no receipt {name!r}"
        raise NotFound(problem, hint=f"receipts are in {folder}")
    return matching[0]
