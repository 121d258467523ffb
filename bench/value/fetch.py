"""Clones the public repositories that `bench.value` reads, as bare Git directories.

python -m bench.value.fetch [--all] DIR
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from bench.value.part_a import TEAMS, TEAMS_HELD_OUT
from bench.value.part_d import CORPORA
from bench.value.sources import SOURCES, SourceMissing, find_source

_ISSUES = (
    *("django/django", "sympy/sympy", "matplotlib/matplotlib", "scikit-learn/scikit-learn", "psf/requests", "pydata/xarray"),
    *("astropy/astropy", "mwaskom/seaborn", "sphinx-doc/sphinx", "pytest-dev/pytest", "pylint-dev/pylint", "pallets/flask"),
)  # fmt: skip


def main() -> int:
    """Clone what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(".bench/value/sources"))
    parser.add_argument(
        "--all", action="store_true", help="also the repositories of the issues, for parts b1 (grep) and b2"
    )
    options = parser.parse_args()
    names = [
        *SOURCES,
        *TEAMS,
        *TEAMS_HELD_OUT,
        *(corpus.repository for corpus in CORPORA),
        *(_ISSUES if options.all else ()),
    ]
    failed = 0
    for name in names:
        try:
            find_source(options.folder, name)
        except SourceMissing:
            target = options.folder / name.replace("/", "+")
            print(f"cloning {name}", flush=True)
            words = ["git", "clone", "--bare", "--quiet", f"https://github.com/{name}", str(target)]
            failed += bool(subprocess.run(words, check=False).returncode)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
