"""What `lorelog add` costs by the number of entries that today's journal already has.

    python -m bench.journal [--sizes 100,1000,5000] [--rounds 10] [--quick]

Each size has a home and a project of its own, whose journal of today has so many entries of about 1 KB. The loopback service
embeds, so no model's time is in it. `lorelog add` runs as a command through the daemon, the sizes in turn: wall time of the command,
its own CPU time, the daemon's CPU time, and the texts that were embedded. One untimed round comes first.
"""

import argparse
import datetime as dt
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import API_KEY, MODEL, own_program
from bench.corpus import SEED, Writer, journal_entry
from bench.measure import EmbeddingService, Measured, embedding_service, median, require, run
from bench.result import Verdicts
from bench.warm_home import WarmHome, home_environment, new_project, show_ms, start_daemon

SIZES = (100, 1_000, 5_000)
MOST_S = 0.250
FLAT = 1.5
"""Most times that the largest journal may take the time of the smallest."""


@dataclass
class Seen:
    """Additions to one journal."""

    commands: list[Measured] = field(default_factory=list)
    daemon_cpu_s: float = 0.0
    embedded: int = 0

    @property
    def wall_s(self) -> float:
        return median(command.wall_s for command in self.commands)

    @property
    def cpu_s(self) -> float:
        return median(command.cpu_s for command in self.commands)


def main() -> int:
    options = _arguments()
    verdicts = Verdicts()
    with ExitStack() as held:
        service = held.enter_context(embedding_service())
        made = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="journal-")))
        homes = {
            size: held.enter_context(start_daemon(*_fill(made / f"{size}", size, service))) for size in options.sizes
        }
        seen = {size: Seen() for size in homes}
        for number in range(options.rounds + 1):
            for size, home in homes.items():
                _add(home, service, number, seen[size])
    _show(seen, options.rounds)
    _judge(seen, verdicts)
    print(f"\n{verdicts.table()}")
    return 1 if verdicts.missed else 0


def _arguments() -> argparse.Namespace:
    def sizes(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split(","))

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=sizes, default=SIZES, metavar="N,N", help="entries of the journal")
    parser.add_argument("--rounds", type=int, default=10, metavar="N")
    parser.add_argument("--quick", action="store_true", help="20 and 100 entries, 2 rounds")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.rounds = (20, 100), 2
    return options


def _fill(place: Path, size: int, service: EmbeddingService) -> tuple[Path, dict[str, str]]:
    """Make a project whose journal of today has so many entries, and index it."""
    project = new_project(place)
    environment = home_environment(
        place, EMBEDDING_PROVIDER="openai", EMBEDDING_MODEL=MODEL, EMBEDDING_BASE_URL=service.base_url
    )
    environment["OPENAI_API_KEY"] = API_KEY
    journal = project / ".lorelog" / "memory" / f"{dt.date.today().isoformat()}.md"
    journal.parent.mkdir(parents=True)
    writer = Writer(SEED + size)
    journal.write_text("".join(journal_entry(writer, number, 0) for number in range(size)), "utf-8")
    cold = environment | {"LORELOG_DAEMON_WARM": "off"}
    require(run([own_program(), "index"], cold, project), f"index of {size} entries")
    return project, environment


def _add(home: WarmHome, service: EmbeddingService, number: int, seen: Seen) -> None:
    service.reset()
    before = home.cpu_s()
    text = f"{Writer(number).sentence()} Number {number}."
    added = require(run([own_program(), "add", text], home.environment, home.project), "lorelog add")
    if number:  # the first round opens everything
        seen.commands.append(added)
        seen.daemon_cpu_s += home.cpu_s() - before
        seen.embedded = max(seen.embedded, service.texts())


def _show(seen: dict[int, Seen], rounds: int) -> None:
    print(f"`lorelog add` through the daemon, {rounds} rounds, medians.\n")
    print("| entries in the journal | wall | slowest | CPU of the command | CPU of the daemon | texts embedded |")
    print("|--:|--:|--:|--:|--:|--:|")
    for size, of in seen.items():
        slowest = max(command.wall_s for command in of.commands)
        cells = [of.wall_s, slowest, of.cpu_s, of.daemon_cpu_s / rounds]
        print(f"| {size:,} | {' | '.join(map(show_ms, cells))} | {of.embedded} |")


def _judge(seen: dict[int, Seen], verdicts: Verdicts) -> None:
    smallest, largest = min(seen), max(seen)
    if largest >= SIZES[-1]:
        took = seen[largest].wall_s
        what = f"add into a journal of {largest:,} entries: wall"
        verdicts.judge(what, show_ms(took), f"<= {show_ms(MOST_S)}", met=took <= MOST_S, headline=True)
    times = seen[largest].wall_s / seen[smallest].wall_s
    what = f"add at {largest:,} entries against {smallest:,}"
    verdicts.judge(what, f"{times:.2f}x", f"<= {FLAT:g}x", met=times <= FLAT, headline=True)


if __name__ == "__main__":
    sys.exit(main())
