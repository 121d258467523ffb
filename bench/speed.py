"""The speed run: lorelog beside memsearch, the same files, the same embedding service, one table.

Responsible for the command and the order of the run; `scenarios.py` does the work, `report.py` judges it. Exits with 1
when a target is missed or the two did not do the same work.

    python bench/speed.py [--rival-env DIR] [--sizes 2000,20000] [--repeat 3] [--rival-large] [--output FILE.json]
"""

import argparse
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import Contender, Lorelog, Memsearch, own_program, own_version, rival_program, versions
from bench.corpus import ENTRIES_PER_FILE, SEED, write_journals
from bench.measure import CommandFailed, EmbeddingService, Measured, embedding_service
from bench.report import (
    OURS,
    RIVAL,
    Line,
    edit_lines,
    growth_lines,
    side_by_side_lines,
    table,
    unlike_work,
    while_indexing_lines,
)
from bench.result import describe_machine, note_figure
from bench.scenarios import Ground, Seen, WhileIndexing, index_after_edits, search_while_indexing, side_by_side, warm_up

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclasses.dataclass
class Outcome:
    """All that a run saw: tables by title, what else there is to say, and the raw samples."""

    tables: dict[str, list[Line]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    unlike: list[str] = dataclasses.field(default_factory=list)
    raw: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def missed(self) -> list[str]:
        return [line.what for lines in self.tables.values() for line in lines if line.met is False]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Time lorelog beside memsearch. Exits with 1 when a target is missed.")
    parser.add_argument("--rival-env", type=Path, default=REPOSITORY / ".bench" / "memsearch", metavar="DIR")
    parser.add_argument("--lorelog", type=Path, default=own_program(), metavar="PROGRAM")
    parser.add_argument("--sizes", type=sizes, default=(2000, 20000), help="entries: one or two numbers")
    parser.add_argument(
        "--repeat", type=int, default=3, metavar="N", help="first indexes of each; others three times as many"
    )
    parser.add_argument("--only", choices=[RIVAL, OURS], help="run one contender; ratios are not judged")
    parser.add_argument(
        "--rival-large",
        action="store_true",
        help="run memsearch at the larger size too (extrapolated: the better part of an hour)",
    )
    parser.add_argument("--skip-rival-large", dest="rival_large", action="store_false", help="the default")
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="every sample, for later comparison")
    return parser.parse_args()


def sizes(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if len(numbers) not in (1, 2) or min(numbers) < ENTRIES_PER_FILE:
        raise argparse.ArgumentTypeError(f"one or two numbers from {ENTRIES_PER_FILE} up, as in 2000,20000")
    return numbers


def take_part(options: argparse.Namespace, service: EmbeddingService) -> list[Contender]:
    """The contenders of this run, the rival first."""
    taking_part: list[Contender] = []
    if options.only != OURS:
        taking_part.append(Memsearch(rival_program(options.rival_env.resolve()), service, Path()))
    if options.only != RIVAL:
        if not options.lorelog.exists():
            raise CommandFailed(f"no lorelog at {options.lorelog}: install it, or give --lorelog PROGRAM")
        taking_part.append(Lorelog(options.lorelog.resolve(), service, Path()))
    return taking_part


def measure_all(options: argparse.Namespace, ground: Ground, contenders: Sequence[Contender]) -> Outcome:
    outcome = Outcome()
    small = ground.place / f"corpus-{options.sizes[0]}"
    write_journals(small, options.sizes[0])
    warm_up(ground, contenders)
    seen = side_by_side(ground, contenders, small)
    outcome.tables[f"{options.sizes[0]:,} entries"] = side_by_side_lines(seen, options.sizes[0])
    outcome.unlike = unlike_work(seen)
    outcome.raw["small"] = {name: plain(of) for name, of in seen.items()}
    settled = [contender.in_home(seen[contender.name].home) for contender in contenders]
    edits = index_after_edits(ground, settled, small)
    outcome.tables["Small edits"] = edit_lines(edits)
    outcome.raw["edits"] = {
        edit: {name: {"texts": one.texts, "runs": [_numbers(run) for run in one.runs]} for name, one in of.items()}
        for edit, of in edits.items()
    }
    if len(options.sizes) == 2:
        large = ground.place / f"corpus-{options.sizes[1]}"
        write_journals(large, options.sizes[1], SEED + 3)
        beside_an_indexer(outcome, ground, settled, (small, large))
        growth(outcome, options, ground, contenders, seen)
    return outcome


def beside_an_indexer(outcome: Outcome, ground: Ground, settled: Sequence[Contender], files: tuple[Path, Path]) -> None:
    """Search while another process indexes, one contender after the other."""
    seen: dict[str, WhileIndexing] = {}
    for contender in settled:
        seen[contender.name] = of = search_while_indexing(ground, contender, *files)
        if of.failure:
            outcome.notes.append(f"{contender.name}, first search that failed while indexing: `{of.failure}`")
        if not of.indexer_held:
            outcome.unlike.append(f"the indexer of {contender.name} failed while it was searched")
    outcome.tables["Search while another process indexes"] = while_indexing_lines(seen)
    outcome.raw["while indexing"] = {name: dataclasses.asdict(of) for name, of in seen.items()}


def growth(
    outcome: Outcome,
    options: argparse.Namespace,
    ground: Ground,
    contenders: Sequence[Contender],
    small: dict[str, Seen],
) -> None:
    """Ours at the larger size; the rival only when asked, as it is quadratic in what one run adds."""
    chosen = [contender for contender in contenders if contender.name == OURS or options.rival_large]
    if not options.rival_large and RIVAL in small:
        outcome.notes.append(
            f"memsearch was not run at {options.sizes[1]:,} entries: its first index grows with the square of what it "
            "adds; extrapolated, the better part of an hour at 20,000 (`--rival-large` runs it)."
        )
    if OURS not in small:
        return
    large = side_by_side(ground, chosen, ground.place / f"corpus-{options.sizes[1]}")
    outcome.tables[f"Growth from {options.sizes[0]:,} to {options.sizes[1]:,} entries"] = growth_lines(
        small[OURS], large[OURS], options.sizes, large.get(RIVAL)
    )
    outcome.raw["large"] = {name: plain(of) for name, of in large.items()}


def plain(seen: Seen) -> dict[str, Any]:
    """The samples without the programs' output, which is long, and the home, which is gone."""
    values = {item.name: getattr(seen, item.name) for item in dataclasses.fields(seen) if item.name != "home"}
    return {name: [_numbers(entry) for entry in of] if isinstance(of, list) else of for name, of in values.items()}


def _numbers(sample: Measured | int) -> dict[str, float] | int:
    if isinstance(sample, int):
        return sample
    return {"wall_s": sample.wall_s, "cpu_s": sample.cpu_s, "peak_bytes": sample.peak_bytes}


def heading(options: argparse.Namespace) -> str:
    names = [own_version(options.lorelog)] if options.only != RIVAL else []
    names += [versions(options.rival_env.resolve())] if options.only != OURS else []
    machine = describe_machine()
    return f"{machine}; load {os.getloadavg()[0]:.1f}; {'; '.join(names)}; medians of {options.repeat} first indexes."


def show(outcome: Outcome, head: str) -> None:
    print(head)
    for title, lines in outcome.tables.items():
        print(f"\n### {title}\n\n{table(lines)}")
        for line in lines:
            if line.target is not None:
                note_figure(line.figure())
    print()
    for note in outcome.notes:
        print(f"- {note}")
    for reason in outcome.unlike:
        print(f"- NOT THE SAME WORK: {reason}")
    for what in outcome.missed:
        print(f"- MISSED: {what}")
    judged = sum(line.met is not None for lines in outcome.tables.values() for line in lines)
    print(f"- {judged - len(outcome.missed)} of {judged} judged targets met")


def main() -> int:
    options = arguments()
    try:
        with embedding_service() as service, tempfile.TemporaryDirectory(prefix="lorelog-bench-") as place:
            contenders = take_part(options, service)
            head = heading(options)
            outcome = measure_all(options, Ground(Path(place).resolve(), service, options.repeat), contenders)
    except CommandFailed as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    show(outcome, head)
    if options.output:
        lines = {title: [dataclasses.asdict(line) for line in of] for title, of in outcome.tables.items()}
        report_text = json.dumps(
            {"run": head, "tables": lines, "missed": outcome.missed, "unlike": outcome.unlike, "raw": outcome.raw},
            indent=1,
        )
        options.output.write_text(report_text + "\n", encoding="utf-8")
    return 1 if outcome.missed or outcome.unlike else 0


if __name__ == "__main__":
    sys.exit(main())
