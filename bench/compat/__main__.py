"""Run memsearch's tests over lorelog, and say which hold.

    pip download memsearch==0.4.23 --no-deps --no-binary :all: --dest .bench/memsearch
    tar xzf .bench/memsearch/memsearch-0.4.23.tar.gz --directory .bench/memsearch
    python -m bench.compat .bench/memsearch/memsearch-0.4.23

Exits with 1 if a test fails that is not in `DIFFERENT`, or one passes that is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

APPLICABLE = {
    "test_chunker.py": "",
    "test_chunk_id_format.py": "",
    "test_scanner.py": "",
    "test_transcript_parser.py": "",
    "test_core_encoding.py": "",
    "test_index_cleanup.py": "not index_with_report",
    "test_cli_expand_section.py": "extract_section",
    "test_cli_recall_workflow.py": "",
    "test_store.py": "upsert_and_search or search_empty_lite or delete_by_source or idempotent or hybrid_search or reopened or test_drop",
}
"""Files of the suite whose promises lorelog makes too, and which of their tests, as pytest's -k takes it."""

_ONCE = "the test repeats one sentence, and equal pieces of a section are stored once; with numbered sentences it holds"
_BLANK = "a section ends before the blank line that follows it: line 9, not 10"
DIFFERENT = {
    "test_long_cjk_text_splits_on_cjk_sentence_boundaries": _ONCE,
    "test_long_cjk_text_splits_on_ellipsis": _ONCE,
    "test_long_cjk_text_splits_on_fullwidth_semicolon": _ONCE,
    "test_render_is_capped": "a conversation is shown by turn, with a limit per reply; there is no text of the whole",
    "test_extract_section_ignores_hash_prefixed_non_heading_lines": _BLANK,
    "test_search_expand_transcript_stays_on_the_matching_turn": _BLANK,
    "test_expand_warns_when_indexed_source_becomes_empty": "the text is shown as it was indexed, with a note; memsearch shows nothing",
}
"""Tests that do not hold as they are written, and why."""


def run(suite: Path, report: Path) -> dict[str, str]:
    """Return the outcome of each test: passed, failed, or skipped."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(HERE / "shim"), str(ROOT / "src"), str(ROOT)]),
        "LORELOG_DAEMON_WARM": "off",
    }
    files = [str(suite / "tests" / name) for name in APPLICABLE]
    chosen = [f"({Path(name).stem} and ({words}))" if words else Path(name).stem for name, words in APPLICABLE.items()]
    words = [
        "-p",
        "bench.compat.coroutines",
        "-p",
        "no:cacheprovider",
        "-q",
        "-W",
        "ignore",
        "--no-header",
        "--tb=short",
    ]
    words += ["-c", os.devnull, "--rootdir", str(suite), "--junitxml", str(report), "-k", " or ".join(chosen)]
    command = [sys.executable, "-m", "pytest", *words, *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the suite could not be run:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
    report.with_suffix(".txt").write_text(done.stdout, "utf-8")
    outcomes: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        file = str(case.get("classname")).split(".")
        outcomes[f"{next(part for part in file if part.startswith('test_'))}.py::{case.get('name')}"] = outcome
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("suite", type=Path, help="the unpacked source distribution of memsearch")
    parser.add_argument("--verbose", action="store_true", help="print what pytest printed")
    asked = parser.parse_args()
    suite = asked.suite.resolve()
    if not (suite / "tests" / "test_chunker.py").is_file():
        parser.error(f"{suite} has no tests of memsearch")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        outcomes = run(suite, report)
        if asked.verbose:
            print(report.with_suffix(".txt").read_text("utf-8"))
    print("| file | run | hold |\n|---|---|---|")
    for name in APPLICABLE:
        own = [outcome for test, outcome in outcomes.items() if test.startswith(f"{name}::")]
        print(f"| {name} | {len(own)} | {own.count('passed')} |")
    values = list(outcomes.values())
    print(f"| all | {len(values)} | {values.count('passed')} |\n")
    wrong = 0
    for test, outcome in outcomes.items():
        name = test.rpartition("::")[2].partition("[")[0]
        if outcome != "passed":
            print(f"- {test}: {outcome}: {DIFFERENT.get(name, 'no reason is known')}")
        wrong += (outcome != "passed") != (name in DIFFERENT)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
