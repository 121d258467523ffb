"""The made-up material of the benches; how the scale bench judges, and our own side of it, end to end and small."""

import hashlib
from pathlib import Path

import pytest
from bench.corpus import write_journals
from bench.scale.contender import CONTENDERS, OURS, Entry
from bench.scale.making import make
from bench.scale.processes import Workplace
from bench.scale.report import notes
from bench.scale.rounds import Inserted, Plan, Seen, run

pytestmark = pytest.mark.slow

ROWS = 500


def seen(rows: int, *, cold: float, warm: float, recalled: float = 1.0) -> Seen:
    """Return what would be seen of a contender with these numbers."""
    inserted = Inserted(rows, 1.0, 1.0, 1, 1, "1", 900.0, "2026-03-05")
    return Seen(inserted, [cold], [cold], [0.01], [warm], [warm], [0.001], [0.001], [warm], [recalled])


def test_the_same_material_everywhere(tmp_path: Path) -> None:
    """Texts and questions are the same bytes on any machine, so stores kept by seed and size stay comparable."""
    small = make(tmp_path, ROWS)
    digests = [
        hashlib.sha256((small.folder / name).read_bytes()).hexdigest() for name in ("rows.jsonl", "queries.json")
    ]
    assert digests == [
        "72779c78c4a52ee8649cd75289b66838651e2dda83fe6d5c856cbe4c1fa9d464",
        "13203724c71c1bc849e79d578d9dd4a7bc091e2fb04e98ce0e1ff2aa05100edd",
    ]


def test_our_side_of_a_run(tmp_path: Path) -> None:
    """The whole run without rivals: inserted, asked cold and warm, memory read, and the exact lane finds the nearest."""
    plan = Plan(Workplace(tmp_path), ROWS, (OURS,), queries=12, rounds=2, cold_rounds=1)
    outcome = run(plan)
    assert outcome.failed == {}
    ours = outcome.seen[OURS]
    assert ours.inserted.rows == ROWS
    assert (len(ours.cold), len(ours.opening), len(ours.warm), len(ours.lexical)) == (1, 1, 12, 12)
    assert ours.fewest_hits == 10
    assert sum(ours.recalls) / len(ours.recalls) >= 0.98
    assert ours.memory["resident"] > ours.memory.get("anonymous", 0) > 0
    assert not any("NOT THE SAME" in note for note in notes(outcome, ROWS))


@pytest.mark.parametrize(
    "entry", [entry for entry in CONTENDERS.values() if entry.environment], ids=lambda of: of.title
)
def test_every_rival_has_its_pins(entry: Entry) -> None:
    """The requirements that a rival's environment is made from pin the packages whose versions are named."""
    folder = Path(__file__).resolve().parents[2] / "bench" / "scale" / "requirements"
    pins = (folder / f"{entry.environment}.txt").read_text("utf-8")
    assert all(f"\n{package}==" in pins for package in entry.packages)


def test_journals_have_the_same_bytes_everywhere(tmp_path: Path) -> None:
    """Any machine and Python writes the same files, and a larger corpus begins with the smaller: figures can be compared."""
    paths = write_journals(tmp_path / "large", 200)
    small = write_journals(tmp_path / "small", 40)

    digest = hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()
    assert digest == "10d4b5e7b3282df437aab4817b0d8991e5d60da32a813d170e0d9b0c5b15e002"
    assert [path.read_bytes() for path in small] == [path.read_bytes() for path in paths[: len(small)]]
