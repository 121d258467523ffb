"""Runs all parts of the delivery benchmark, each as a process of its own, and says which missed a target.

    python -m bench.delivery [--data DIR] [--out FILE] [--only PART]

Parts: `notes` and `statements` (what is kept of real and made-up sessions), `cues` (the cost of evaluating them),
`replay` (deliveries on the real transcripts of --data) and `prompts` (memories that prompts bring). `python bench/hooks.py` measures the hooks' delay.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PARTS = {
    "notes": True,
    "statements": True,
    "cues": False,
    "replay": True,
    "prompts": True,
}
"""Parts, and whether each reads --data."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the parts; return 1 if one missed a target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="directory of real data; parts that need it are left out without it")
    parser.add_argument("--out", type=Path, help="write the deliveries on real transcripts to this file")
    parser.add_argument("--only", choices=PARTS, help="run one part")
    options = parser.parse_args(argv)
    missed = []
    for part, needs_data in PARTS.items():
        if options.only not in (None, part) or importlib.util.find_spec(f"bench.delivery.{part}") is None:
            continue
        if needs_data and options.data is None:
            print(f"\n## {part}\n\nleft out: give --data DIR", flush=True)
            continue
        words = ["--data", str(options.data)] if needs_data else []
        words += ["--out", str(options.out)] if part == "replay" and options.out else []
        print(f"\n## {part}\n", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.delivery.{part}", *words], check=False).returncode:
            missed.append(part)
    print(f"\n{'MISSED: ' + ', '.join(missed) if missed else 'ok'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
