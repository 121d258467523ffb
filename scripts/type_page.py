"""Type what a page tells its reader to type, and put what is really printed onto the page.

    python scripts/type_page.py docs/trust.md            write the page anew
    python scripts/type_page.py docs/trust.md --check    only say whether it is still true

Every line after `$ ` of the page's console blocks is typed into a shell, in order, in one new home and one new
directory. Ids and times are others each time: ids on the page stand for those that the same lines print now, and when
pages are compared, all ids are alike, and so are times and confidence.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
ID = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}(?:-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?\b|\b(?:[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{64})\b|\b[0-9a-f]{8}\b"
)
MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:(?: > |[ T])\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?)?")
CONFIDENCE = re.compile(r"[●○]{3} (?:strong|likely|weak)|\b\d\.\d{3}  \d+% likely")
TOKENS = re.compile(r"~\d+ tokens")
SECONDS = re.compile(r"\b\d+\.\d s\b")
BUILT_IN_MODEL = "<!-- typed with: the built-in model -->"
"""Mark of a page whose searches need vectors. The others are typed with keywords only, which takes less time."""
LIMIT_S = 120


@dataclass
class Typed:
    """Ids on a page, and their current replacements."""

    real: dict[str, str] = field(default_factory=dict)

    def line(self, shown: str) -> str:
        """Return a command with current ids."""
        return ID.sub(lambda found: self.real.get(found[0], found[0]), shown)

    def learn(self, shown: str, printed: str) -> None:
        """Map the ids of two texts to each other, in order."""
        for old, new in zip(_ids(shown), _ids(printed), strict=False):
            self.real.setdefault(old, new)


def steps(page: str) -> list[tuple[str, str]]:
    """Return each command of a page with its printed output."""
    return [found.groups() for block in BLOCK.findall(page) for found in STEP.finditer(block)]  # type: ignore[misc]


def retyped(page: str, directory: Path, environment: Mapping[str, str]) -> str:
    """Return a page with the current output of its commands."""
    typed = Typed()

    def step(found: re.Match[str]) -> str:
        line = typed.line(found[1])
        printed = run(line, directory, environment)
        gap = "\n" if found[2].endswith("\n\n") else ""  # between two commands of one block
        typed.learn(found[2], printed)
        return f"$ {line}\n{printed}{gap}"

    return BLOCK.sub(lambda block: f"```console\n{STEP.sub(step, block[1])}```", page)


def run(line: str, directory: Path, environment: Mapping[str, str]) -> str:
    """Return everything that a line prints to either stream."""
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=directory,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    printed = done.stdout.rstrip().replace(str(directory.parent), "…")
    return f"{printed}\n" if printed else ""


def masked(page: str) -> str:
    """Return a page's commands and output without parts that differ in each run."""
    text = "\n".join(f"$ {line}\n{printed}" for line, printed in steps(page))
    text = TOKENS.sub("~N tokens", SECONDS.sub("N s", CONFIDENCE.sub("CONFIDENCE", MOMENT.sub("TIME", text))))
    return ID.sub("ID", text)


def environment_at(place: Path, page: str = "") -> dict[str, str]:
    """Return an environment for a page, without anything of the current user."""
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {
        "PATH": programs,
        "HOME": str(place),
        "LORELOG_HOME": str(place / "home"),
        "LORELOG_EMBEDDING_PROVIDER": "builtin" if BUILT_IN_MODEL in page else "none",
        "LORELOG_DAEMON_WARM": "off",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }


def _ids(text: str) -> list[str]:
    return list(dict.fromkeys(ID.findall(text)))


def main() -> int:
    """Run the commands of a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the page is not true")
    options = parser.parse_args()
    old = options.page.read_text("utf-8")
    with tempfile.TemporaryDirectory(prefix="page-") as made:
        directory = Path(made) / "shop"
        directory.mkdir()
        new = retyped(old, directory, environment_at(Path(made), old))
    if options.check:
        return int(masked(old) != masked(new))
    options.page.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
