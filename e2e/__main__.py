"""The end-to-end run: every host by every behaviour, one table.

    python -m e2e [HOST ...] [--only ROW] [--jobs N] [--again] [--minutes N] [--netns] [--json FILE] [--logs DIR]

The core rows of every host run first. With --minutes, no other row is started once that time is over; the table shows
those as skipped. Such a run begins the other rows elsewhere each day, so that none is skipped every time. Hosts on a busy machine are sometimes late: with --again a failed row is retried once, alone, and the table
says so. Exits with 1 when a row failed, with 3 when a host could not be installed (the others still run). The files of a
failed row are kept below --logs, one folder each.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import datetime as dt
import fcntl
import json
import os
import platform
import shutil
import socket
import struct
import sys
import tempfile
import time
import traceback
from pathlib import Path

from e2e import at_terminal  # noqa: F401 - puts its rows into the table
from e2e.behaviours import BEHAVIOURS
from e2e.hosts import HOSTS
from e2e.hosts.host import CORE_ROWS
from e2e.installing import SEEN_FILE, Installed, cache_folder, install_all
from e2e.model import Model
from e2e.world import Failed, World

FAILED, NOT_INSTALLED = 1, 3
_INSIDE = "LORELOG_E2E_INSIDE"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One host, one behaviour."""

    host: str
    row: str
    state: str  # ok, FAIL, n/a, skip
    seconds: float = 0.0
    why: str = ""
    tries: int = 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e", description="Prove lorelog in the real hosts.")
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=f"of {', '.join(HOSTS)}; all by default")
    parser.add_argument("--only", action="append", metavar="ROW", help=f"of {', '.join(BEHAVIOURS)}; repeatable")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="behaviours at once (default: 1)")
    parser.add_argument("--again", action="store_true", help="look once more, alone, for what was not seen")
    parser.add_argument("--minutes", type=float, metavar="N", help="start rows beyond the core ones for N minutes only")
    parser.add_argument("--netns", action="store_true", help="run in a network that has loopback only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as JSON")
    parser.add_argument("--logs", type=Path, metavar="DIR", help="where failures are kept (default: in the cache)")
    parser.add_argument("--record", action="store_true", help="note what was seen in e2e/seen.json; make docs shows it")
    parser.add_argument("--keep", action="store_true", help="keep the worlds of behaviours that were seen, too")
    options = parser.parse_args()
    for name, known in ((options.hosts, HOSTS), (options.only or [], BEHAVIOURS)):
        unknown = [item for item in name if item not in known]
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}; known are {', '.join(known)}")
    options.logs = options.logs or cache_folder() / "failures"
    return options


def run_cell(host: str, row: str, there: dict[str, Installed], options: argparse.Namespace) -> Cell:
    """Build a world, bring the host in, look for the behaviour."""
    kind = HOSTS[host]
    if row in kind.absent:
        return Cell(host, row, "n/a", why=kind.absent[row])
    began = time.monotonic()
    # Not below the temporary directory: Codex lets its sandboxed commands write there, which would hide trouble.
    worlds = cache_folder() / "worlds"
    worlds.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix=f"{host}-", dir=worlds))
    model = Model()
    model.start()
    world = World(place, model, there)
    why = ""
    try:
        living = kind(world)
        living.configure() if BEHAVIOURS[row].bare else living.prepare()
        BEHAVIOURS[row].check(living)
    except Failed as error:
        why = str(error)
    except Exception:  # noqa: BLE001 - one broken row must not hide the others
        why = traceback.format_exc()
    seconds = time.monotonic() - began
    world.close()
    if why or options.keep:
        kept = options.logs / f"{host}-{row.replace(' ', '-')}"
        shutil.rmtree(kept, ignore_errors=True)
        world.keep(kept)
        (kept / "why.txt").write_text(why + "\n")
    shutil.rmtree(place, ignore_errors=True)
    return Cell(host, row, "FAIL" if why else "ok", seconds, why)


def order_cells(hosts: list[str], rows: list[str], day: int | None = None) -> list[tuple[str, str]]:
    """Return hosts and rows in the order in which they run: core rows of every host first, then the others.

    With a day, the other rows begin with another one each day.
    """
    rest = [row for row in rows if row not in CORE_ROWS]
    start = 0 if day is None or not rest else day % len(rest)
    order = [row for row in rows if row in CORE_ROWS] + rest[start:] + rest[:start]
    cells = [(host, row) for row in order for host in hosts]
    return sorted(cells, key=lambda cell: not is_core(*cell))


def is_core(host: str, row: str) -> bool:
    """Return whether a row of a host is run whatever time there is."""
    return row in HOSTS[host].core_rows


def run_all(there: dict[str, Installed], options: argparse.Namespace) -> list[Cell]:
    hosts = [name for name in (options.hosts or HOSTS) if name in there]
    today = None if options.minutes is None else dt.datetime.now(dt.UTC).toordinal()
    cells_to_run = order_cells(hosts, options.only or list(BEHAVIOURS), today)
    deadline = None if options.minutes is None else time.monotonic() + options.minutes * 60

    def run_in_time(host: str, row: str) -> Cell:
        if deadline is not None and not is_core(host, row) and time.monotonic() > deadline:
            return Cell(host, row, "skip")
        return run_cell(host, row, there, options)

    cells = []
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        waiting = [pool.submit(run_in_time, host, row) for host, row in cells_to_run]
        for item in concurrent.futures.as_completed(waiting):
            cells.append(item.result())
            tell(cells[-1])
    return [look_again(cell, there, options) if options.again and cell.state == "FAIL" else cell for cell in cells]


def look_again(cell: Cell, there: dict[str, Installed], options: argparse.Namespace) -> Cell:
    """Look for a behaviour that was not seen once more, with nothing else under way."""
    second = dataclasses.replace(run_cell(cell.host, cell.row, there, options), tries=2)
    tell(second)
    return second


def tell(cell: Cell) -> None:
    """Print how one cell came out."""
    said = f": {cell.why.strip().splitlines()[-1][:400]}" if cell.why else ""
    again = " (second try)" if cell.tries > 1 else ""
    print(f"{cell.state:4} {cell.host:9} {cell.row:12} {cell.seconds:5.1f} s{again}{said}", flush=True)


def table(cells: list[Cell], there: dict[str, Installed], missing: dict[str, str]) -> str:
    """The hosts by behaviours, as Markdown."""
    hosts = [name for name in HOSTS if name in missing or any(cell.host == name for cell in cells)]
    by_place = {(cell.host, cell.row): cell for cell in cells}
    heads = [f"{HOSTS[name].title} {there[name].version if name in there else '(not here)'}" for name in hosts]
    lines = [f"| behaviour | {' | '.join(heads)} |", f"|---|{'---|' * len(hosts)}"]
    for name, row in BEHAVIOURS.items():
        if any((host, name) in by_place for host in hosts):
            found = [by_place.get((host, name)) for host in hosts]
            lines.append(f"| {row.promise} | {' | '.join(_shown(cell) for cell in found)} |")
    notes = [f"- n/a, {HOSTS[cell.host].title}, {cell.row}: {cell.why}" for cell in cells if cell.state == "n/a"]
    return "\n".join([*lines, "", *notes])


def _shown(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.state in {"n/a", "skip"}:
        return cell.state
    return f"{cell.state} ({cell.seconds:.0f} s{', second try' if cell.tries > 1 else ''})"


def record(cells: list[Cell], there: dict[str, Installed]) -> None:
    """Note which rows were seen, in which version and on which day, and take out those that failed."""
    seen: dict[str, dict[str, str]] = json.loads(SEEN_FILE.read_text())
    for cell in cells:
        rows = seen.setdefault(cell.host, {})
        if cell.state == "ok":
            rows[cell.row] = f"{there[cell.host].version} {dt.datetime.now(dt.UTC).date()}"
        elif cell.state == "FAIL":
            rows.pop(cell.row, None)
    SEEN_FILE.write_text(json.dumps(seen, indent=1) + "\n")


def enter_own_network(arguments_given: list[str]) -> None:
    """Start this program again where there is nothing but loopback. It does not return."""
    unshare = shutil.which("unshare")
    if unshare is None:
        sys.exit("e2e: --netns needs the program unshare")
    how = ["--net"] if os.geteuid() == 0 else ["--map-root-user", "--net"]
    os.environ[_INSIDE] = "1"
    os.execv(unshare, [unshare, *how, sys.executable, "-m", "e2e", *arguments_given])


def raise_loopback() -> None:
    """A new network's loopback is down: raise it, as `ip link set lo up` does where that program is."""
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as any_socket:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, get_flags, asked))[1]
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", flags | up))


def main() -> int:
    options = arguments()
    there, missing = install_all(options.hosts or list(HOSTS), cache_folder())
    if options.netns and not os.environ.get(_INSIDE):
        enter_own_network(sys.argv[1:])
    if os.environ.get(_INSIDE):
        raise_loopback()
    cells = run_all(there, options)
    head = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"\n{head}\n\n{table(cells, there, missing)}")
    if options.json:
        versions = {name: host.version for name, host in there.items()}
        found = {"machine": head, "versions": versions, "missing": missing}
        options.json.write_text(json.dumps({**found, "cells": [dataclasses.asdict(cell) for cell in cells]}, indent=1))
    if options.record:
        record(cells, there)
    failures = [cell for cell in cells if cell.state == "FAIL"]
    skipped = sum(cell.state == "skip" for cell in cells)
    passed = sum(cell.state == "ok" for cell in cells)
    print(f"{passed} passed, {len(failures)} FAILED, {skipped} skipped for lack of time, {len(missing)} hosts missing")
    for cell in failures:
        print(f"- {cell.host}, {cell.row}: {cell.why.strip().splitlines()[-1][:300]}")
    if failures:
        print(f"What they left behind is in {options.logs}")
    for name, why in missing.items():
        print(f"\n!!! NOT PROVEN: {HOSTS[name].title} could not be installed. {why}", file=sys.stderr)
    return FAILED if failures else NOT_INSTALLED if missing else 0


if __name__ == "__main__":
    sys.exit(main())
