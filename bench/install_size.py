"""What a base install puts on disk: distributions and megabytes, without pip and setuptools, with and without compiled Python files.

Builds both wheels without a network, installs them with the pinned packages of requirements/run.txt into a new environment,
and adds up the files that each distribution lists as its own. Packages come from the index that pip is set up for.

uv installs without compiled files, and Python writes those of the modules that are imported; pip compiles every module, tests of packages included.
The goals are for what is downloaded, that is, without them.

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
GOAL_DISTRIBUTIONS, GOAL_MB = 25, 190
_LIST = """
import importlib.metadata as m
for d in m.distributions():
    sizes = [0, 0]
    for f in d.files or ():
        if f.locate().is_file():
            sizes["__pycache__" in str(f)] += f.locate().stat().st_size
    print(d.name, *sizes)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", metavar="NAMES", help="extras to install too, separated by commas")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lorelog-size-") as scratch:
        python = install(Path(scratch), options.extras)
        sizes = distribution_sizes(python)
    total, compiled = (sum(size[part] for size in sizes.values()) for part in (0, 1))
    print("| distribution | MB | compiled by pip, MB |\n|---|--:|--:|")
    for name, (size, extra) in sorted(sizes.items(), key=lambda item: -item[1][0]):
        print(f"| {name} | {size / 1e6:.1f} | {extra / 1e6:.1f} |")
    print(
        f"| all | {total / 1e6:.1f} | {compiled / 1e6:.1f} |\n\n{(total + compiled) / 1e6:.1f} MB with compiled files.\n"
    )
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
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "-r", str(ROOT / "requirements" / "run.txt")], check=True)
    subprocess.run([*pip, "--no-deps", *map(str, sorted(wheels.glob("*.whl")))], check=True)
    if extras:
        subprocess.run([*pip, "--find-links", str(wheels), f"lorelog[{extras}]"], check=True)
    return python


def distribution_sizes(python: str) -> dict[str, tuple[int, int]]:
    """Return the bytes of each distribution and of its compiled files, pip and setuptools left out: they belong to the environment."""
    listed = subprocess.run([python, "-c", _LIST], check=True, capture_output=True, text=True).stdout
    rows = (line.rsplit(" ", 2) for line in listed.splitlines())
    return {name: (int(size), int(extra)) for name, size, extra in rows if name not in {"pip", "setuptools"}}


if __name__ == "__main__":
    sys.exit(main())
