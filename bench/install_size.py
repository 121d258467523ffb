"""What a base install puts on disk: distributions and megabytes, with and without compiled Python files.

Builds both wheels without a network, installs them with the pinned packages of requirements/run.txt into a new environment,
and adds up the files that each distribution lists as its own. Packages come from the index that pip is set up for.

    python bench/install_size.py            # base
    python bench/install_size.py --extras code,signing
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.result import Verdicts

ROOT = Path(__file__).parents[1]
GOAL_DISTRIBUTIONS, GOAL_MB = 30, 170
_LIST = """
import importlib.metadata as m
for d in m.distributions():
    files = [f.locate() for f in d.files or () if "__pycache__" not in str(f)]
    print(d.name, sum(f.stat().st_size for f in files if f.is_file()))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", metavar="NAMES", help="extras to install too, separated by commas")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lorelog-size-") as scratch:
        python = install(Path(scratch), options.extras)
        sizes = distribution_sizes(python)
        packages = Path(scratch) / "venv"
        subprocess.run([python, "-m", "compileall", "-q", str(packages)], check=False)
        compiled = sum(path.stat().st_size for path in packages.rglob("*.pyc") if "/pip/" not in path.as_posix())
    total = sum(sizes.values())
    print("| distribution | MB |\n|---|--:|")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"| {name} | {size / 1e6:.1f} |")
    print(f"\n{(total + compiled) / 1e6:.1f} MB with compiled files.\n")
    verdicts = Verdicts()
    count, size_mb = len(sizes), total / 1e6
    verdicts.judge("distributions", str(count), f"<= {GOAL_DISTRIBUTIONS}", met=count <= GOAL_DISTRIBUTIONS)
    verdicts.judge("files", f"{size_mb:.1f} MB", f"<= {GOAL_MB} MB", met=size_mb <= GOAL_MB)
    print(verdicts.table())
    return 0


def install(scratch: Path, extras: str) -> str:
    """Build and install both distributions into a new environment; return its Python."""
    wheels, venv = scratch / "wheels", scratch / "venv"
    offline = {**os.environ, "PIP_NO_INDEX": "1"}
    for source in ("encoder", "."):
        build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(wheels), source]
        subprocess.run(build, cwd=ROOT, env=offline, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "run.txt")], check=True)
    subprocess.run([*pip, "--no-deps", *map(str, sorted(wheels.glob("*.whl")))], check=True)
    if extras:
        subprocess.run([*pip, "--find-links", str(wheels), f"lorelog[{extras}]"], check=True)
    return python


def distribution_sizes(python: str) -> dict[str, int]:
    """Return the bytes of each distribution, pip and setuptools left out: they belong to the environment."""
    listed = subprocess.run([python, "-c", _LIST], check=True, capture_output=True, text=True).stdout
    rows = (line.rsplit(" ", 1) for line in listed.splitlines())
    return {name: int(size) for name, size in rows if name not in {"pip", "setuptools"}}


if __name__ == "__main__":
    sys.exit(main())
