"""Builds and checks what is released; .github/workflows/release.yml calls it, and --dry-run does all of it here.

    python scripts/release.py build dist             # wheels, sdists, packages.py, SHA256SUMS
    python scripts/release.py check dist --tag v0.1.0
    python scripts/release.py install dist           # into a new environment, and one question
    python scripts/release.py --dry-run              # all three in a temporary folder; built twice, byte for byte

`build` needs no network. It and `check` need requirements/release.txt; `make release-dry-run` installs that into .bench/release.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]
VERSION_FILE = ROOT / "src/lorelog/core/__init__.py"
CHECKSUMS = "SHA256SUMS"
NOTE = "Redis keys live for five minutes."


def build(folder: Path) -> None:
    """Build everything into an empty folder."""
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty; remove it first")
    offline = {**os.environ, "PIP_NO_INDEX": "1"}
    for source in ("encoder", "."):
        _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder.resolve(), source, environment=offline)
    # In an environment of its own: packages.py imports lorelog, whose base need not be installed here.
    _run(sys.executable, "scripts/packages.py", folder.resolve())
    lines = [f"{_digest(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / CHECKSUMS).write_text("".join(lines), "utf-8")


def check(folder: Path, tag: str = "") -> list[str]:
    """Return what keeps these files from being released."""
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    faults = []
    if (len(wheels), len(sdists)) != (2, 2):
        faults.append(f"{folder} has {len(wheels)} wheels and {len(sdists)} sdists instead of 2 and 2")
    for tool in (["twine", "check", "--strict", *wheels, *sdists], ["check_wheel_contents", *wheels]):
        done = subprocess.run([sys.executable, "-m", *map(str, tool)], check=False)
        faults += [f"{tool[0]} found something"] * bool(done.returncode)
    for line in (folder / CHECKSUMS).read_text("utf-8").splitlines():
        digest, _, name = line.partition("  ")
        if _digest(folder / name) != digest:
            faults.append(f"{name} is not what was built")
    return faults + (check_tag(tag) if tag else [])


def check_tag(tag: str) -> list[str]:
    """Return what of the tree does not agree with the tag of a release."""
    found = re.search(r'^VERSION = "([^"]+)"', VERSION_FILE.read_text("utf-8"), re.MULTILINE)
    version = found[1] if found else ""
    faults = [] if tag == f"v{version}" else [f"the tag is {tag}, and the version {version}"]
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    ):
        faults.append(f"CHANGELOG.md has no section [{version}] with a date")
    return faults


def install(folder: Path) -> None:
    """Install the wheels and the pinned base into a new environment, and ask a question."""
    with tempfile.TemporaryDirectory(prefix="lorelog-release-") as scratch:
        environment, home = Path(scratch) / "environment", Path(scratch) / "home"
        _run(sys.executable, "-m", "venv", environment)
        pip = [environment / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run(*pip, "--require-hashes", "-r", "requirements/run.txt")
        _run(*pip, "--no-deps", *(wheel.resolve() for wheel in folder.glob("*.whl")))
        home.mkdir()
        (home / "note.md").write_text(NOTE, "utf-8")
        own = {**os.environ, "HOME": str(home), "LORELOG_HOME": str(home / ".lorelog"), "LORELOG_DAEMON_WARM": "off"}
        own.pop("PYTHONPATH", None)
        program = environment / "bin/lorelog"
        for words in (["version"], ["index", "note.md"], ["doctor"]):
            _run(program, *words, environment=own, directory=home)
        answer = subprocess.run(
            [program, "search", "how long do keys live"], cwd=home, env=own, capture_output=True, text=True, check=True
        )
        if "note.md" not in answer.stdout:
            raise SystemExit(f"the question was not answered: {answer.stdout}")


def dry_run() -> list[str]:
    """Build twice, compare, check and install; return the faults."""
    with tempfile.TemporaryDirectory(prefix="lorelog-release-") as scratch:
        first, second = Path(scratch) / "first", Path(scratch) / "second"
        for folder in (first, second):
            build(folder)
        faults = [
            f"{path.name} differs in a second build"
            for path in sorted(first.iterdir())
            if path.read_bytes() != (second / path.name).read_bytes()
        ]
        faults += check(first)
        install(first)
        for path in sorted(first.iterdir()):
            print(f"{path.stat().st_size:>12,}  {path.name}")
    return faults


def _run(*command: object, environment: dict[str, str] | None = None, directory: Path = ROOT) -> None:
    words = list(map(str, command))
    print("$", " ".join(words), flush=True)
    if subprocess.run(words, cwd=directory, env=environment, check=False).returncode != 0:
        raise SystemExit(f"this failed: {' '.join(words)}")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make_parser() -> argparse.ArgumentParser:
    """Return the parser; a test parses the workflow's commands with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", nargs="?", choices=("build", "check", "install"))
    parser.add_argument("dist", nargs="?", type=Path, default=Path("dist"), help="folder of the built files")
    parser.add_argument("--tag", default="", help="the tag of the release, which must agree with version and changelog")
    parser.add_argument("--dry-run", action="store_true", help="do every step in a temporary folder")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one step, or all of them."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.dry_run == bool(options.step):
        parser.error("name a step, or --dry-run")
    faults: list[str] = []
    if options.dry_run:
        faults = dry_run()
    elif options.step == "check":
        faults = check(options.dist, options.tag)
    else:
        (build if options.step == "build" else install)(options.dist)
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
