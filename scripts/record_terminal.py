"""Record commands on the sample memory as the picture of the README.

    python scripts/record_terminal.py            write docs/assets/terminal.svg
    python scripts/record_terminal.py --print    show the same in this terminal

The commands really run, in a new home and a copy of examples/fortnight, at a terminal of their own. The picture refers to no
font or file elsewhere. Ids depend on the location of files, so the copy is always in the same folder; days differ between
recordings, and so does the id of the memory that is added.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "assets" / "terminal.svg"
PLACE = Path(tempfile.gettempdir()) / "lorelog-recording"
COLUMNS, ROWS = 96, 60
PREPARATION = ["index", "memory"]  # not shown
STEPS = (
    ["search", "why did we shorten the cache TTL?", "-k", "2"],
    ["add", "Use pnpm, not npm, to install packages", "--type", "decision", "--tag", "tooling"],
    ["search", "how do I install a package?", "-k", "1"],
)
THEME = TerminalTheme(
    (24, 26, 31),
    (214, 217, 224),
    [
        (58, 62, 71),
        (239, 113, 120),
        (134, 204, 131),
        (235, 190, 110),
        (110, 168, 240),
        (199, 146, 234),
        (101, 196, 206),
        (214, 217, 224),
    ],
)
PROMPT = "bold green"
_FONT_FACE = re.compile(r"\s*@font-face \{\{.*?\}\}", re.DOTALL)
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"


def main() -> int:
    """Run the commands and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="write no file")
    to_screen = parser.parse_args().print
    console = Console(
        record=True,
        width=COLUMNS,
        file=sys.stdout if to_screen else io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    PLACE.mkdir(mode=0o700)  # fails if another recording runs
    try:
        record(console, PLACE / "harbor")
    finally:
        shutil.rmtree(PLACE)
    if not to_screen:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(export_picture(console), encoding="utf-8")
        print(f"wrote {PICTURE.relative_to(ROOT)}, {PICTURE.stat().st_size:,} bytes")
    return 0


def record(console: Console, project: Path) -> None:
    """Type each command, and print it with its output."""
    shutil.copytree(ROOT / "examples" / "fortnight" / "memory", project / "memory")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LORELOG_", "NO_COLOR"))}
    environment |= {
        "LORELOG_HOME": str(PLACE / "home"),
        "LORELOG_DAEMON_WARM": "off",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "TZ": "UTC",
    }
    run_at_terminal(PREPARATION, project, environment)
    for words in STEPS:
        typed = " ".join(f'"{word}"' if " " in word else word for word in words)
        console.print(Text.assemble(("$ ", PROMPT), (f"lorelog {typed}", "bold")))
        console.print(Text.from_ansi(run_at_terminal(words, project, environment).rstrip()))
        console.print()


def run_at_terminal(words: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Return the output of a command whose standard output is a terminal. Raise CalledProcessError if it fails."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "lorelog", *words]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        output = b"".join(iter(lambda: _read(reader), b""))
        notes = process.stderr.read() if process.stderr else b""
    os.close(reader)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, output, notes)
    return (output + notes).decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux: the other end was closed
        return b""


def export_picture(console: Console) -> str:
    """Return the recording as SVG with the fonts of the viewer; rich's own format loads one from the network."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    code_format = _FONT_FACE.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, monospace", _FONTS)
    return console.export_svg(title="lorelog", theme=THEME, code_format=code_format, unique_id="terminal")


if __name__ == "__main__":
    raise SystemExit(main())
