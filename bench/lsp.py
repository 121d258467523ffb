"""How long the language server takes for a hover, and how many changes of an editor it takes in a second.

    python -m bench.lsp --data DIR [--lines N] [--changes N]

--data is a bare snapshot of a repository that keeps its agents' sessions (see `bench.why`). It is checked out and its sessions are
captured in a temporary home with a daemon; decisions about its functions are added, one of which in ten is about each of the opened files. Then an
editor opens files and asks over pipes, as a person does: one hover after the other, on lines drawn by chance, each line
twice. The first may be answered before the reason of the line is known; how many had it is counted.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from bench.result import Verdicts
from bench.why import capture, git, read_team
from tests.surfaces.lsp.client import Editor

from lorelog import Lorelog

P95_MS, MEMORIES, FILES = 50, 500, 8
_PAUSE_S = 0.4
"""Between hovers: a person moves the mouse."""


def ask(editor: Editor, places: list[tuple[str, int]]) -> tuple[list[float], int]:
    """Hover over lines; return the milliseconds, sorted, and how many answers had the reason of the line."""
    spent, complete = [], 0
    for uri, line in places:
        began = time.perf_counter()
        found = editor.at("hover", uri, line, 6)
        spent.append((time.perf_counter() - began) * 1000)
        complete += bool(found) and "\ncommit " in f"\n{found['contents']['value']}"
        time.sleep(_PAUSE_S)
    return sorted(spent), complete


def cpu_ms(editor: Editor) -> float:
    """Return the CPU time that the server used so far: on a busy machine it tells more than the clock."""
    fields = Path(f"/proc/{editor.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def type_changes(editor: Editor, uri: str, count: int) -> tuple[float, float]:
    """Send changes as fast as the pipe takes them; return how many were taken in a second, and ms of a hover behind them."""
    began = time.perf_counter()
    for number in range(count):
        editor.insert(uri, number % 50, "x", number + 2)
    sent = time.perf_counter()
    editor.at("hover", uri, 10)
    ended = time.perf_counter()
    return count / (ended - began), (ended - sent) * 1000


def remember(client: Lorelog, checkout: Path, files: list[str], chance: random.Random) -> None:
    """Add decisions about functions of the checkout."""
    names = git(checkout, "grep", "-hoE", r"(def|function|func|class) [A-Za-z_]{4,}", ok=(0, 1)).decode(
        "utf-8", "replace"
    )
    symbols = sorted({line.split()[-1] for line in names.splitlines()}) or ["main"]
    for number in range(MEMORIES):
        about = f"`{chance.choice(symbols)}`" + (f" in {chance.choice(files)}" if number % 10 == 0 else "")
        client.add(f"{about} stays as it is, for reason {number}.", type="decision")


def measure(source: Path, args: argparse.Namespace, verdicts: Verdicts, folder: Path) -> None:
    chance, team = random.Random(7), read_team(source, folder)
    tracked = git(team.checkout, "ls-files", "*.py", "*.go", "*.ts", "*.tsx", "*.js").decode("utf-8", "replace").split()
    files = [
        name for name in chance.sample(tracked, len(tracked)) if 2_000 < (team.checkout / name).stat().st_size < 60_000
    ]
    files = files[:FILES]
    with Lorelog(team.checkout, home=folder / "home", daemon="off") as client:
        team.sessions = dict(list(team.sessions.items())[: args.sessions])
        capture(team, client)
        remember(client, team.checkout, files, chance)
    environment: Mapping[str, str] = {**os.environ, "LORELOG_HOME": str(folder / "home"), "HOME": str(folder)}
    with Editor(team.checkout, environment=environment) as editor:
        uris = {editor.open(team.checkout / name): team.checkout / name for name in files}
        for uri in uris:
            editor.eventually(partial(editor.lenses, uri))
        places = []
        for _ in range(args.lines + 10):
            uri = chance.choice(list(uris))
            lines = uris[uri].read_text("utf-8", "replace").split("\n")
            places.append((uri, chance.choice([number for number, line in enumerate(lines) if line.strip()])))
        ask(editor, places[:10])  # warm
        verdicts.judge("load of the machine", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", "", met=None)
        for label in ("first hover of a line", "second hover of a line"):
            used = cpu_ms(editor)
            spent, complete = ask(editor, places[10:])
            each = (cpu_ms(editor) - used) / len(spent)
            p95 = spent[int(0.95 * len(spent))]
            verdicts.judge(f"{label}: 95 % within", f"{p95:.0f} ms", f"≤ {P95_MS} ms", met=p95 <= P95_MS)
            verdicts.judge(f"{label}: half within", f"{spent[len(spent) // 2]:.0f} ms", "", met=None)
            verdicts.judge(f"{label}: CPU time of the server", f"{each:.1f} ms", "", met=None)
            verdicts.judge(f"{label}: had the line's commit", f"{complete} of {len(spent)}", "", met=None)
        used = cpu_ms(editor)
        rate, behind = type_changes(editor, next(iter(uris)), args.changes)
        verdicts.judge("changes taken in a second", f"{rate:,.0f}", "", met=None)
        each = (cpu_ms(editor) - used) / args.changes
        verdicts.judge("CPU time of a change", f"{each:.2f} ms", "", met=None)
        verdicts.judge(f"hover behind {args.changes:,} changes", f"{behind:,.0f} ms", "", met=None)
    subprocess.run(
        [sys.executable, "-m", "lorelog", "daemon", "stop"], env=environment, check=False, capture_output=True
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="bare snapshot of a repository")
    parser.add_argument("--sessions", type=int, default=20, help="sessions to capture")
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--changes", type=int, default=2_000)
    args = parser.parse_args()
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory(prefix="lorelog-lsp-") as folder:
        measure(args.data, args, verdicts, Path(folder))
    print(verdicts.table())
    return 1 if verdicts.missed else 0


if __name__ == "__main__":
    sys.exit(main())
