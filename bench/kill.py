"""Durability of records: processes that write them are killed at random moments, repeatedly.

Each cycle a process forks writers that write tasks, progress, decisions and finishes through the operations, as agents
do, and say after each answer which record they were told of. They are killed with SIGKILL at a random moment. Then the
ledger must be sound, hold everything that anybody was told of, and the tables must know the same. `--writers 24
--finish` kills nobody: all write at once, and every record must be there.

    python bench/kill.py [--cycles 500] [--writers 2] [--seed 1] [--json]
    python bench/kill.py --cycles 1 --writers 24 --finish
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lorelog import Lorelog
from lorelog.services.records.keyring import Keyring
from lorelog.services.records.store import RecordStore

SETTINGS = {"embedding.provider": "none"}
ROUNDS = 4
"""Tasks that a writer completes if it is not killed."""
LONGEST_S = 0.25
LOOK_EVERY = 10
BEGIN_ANEW = 20_000
"""Records after which a new ledger is used: checking a large one takes longer and longer."""
SIGNER = "agent-0"


@dataclass
class Tally:
    """Counts of a run."""

    cycles: int = 0
    killed: int = 0
    acknowledged: int = 0
    lost: int = 0
    unsound: int = 0
    """Number of changed ledgers, or tables that do not match their ledger."""
    unsigned: int = 0
    """Records of the signing writer with an invalid signature."""
    torn: int = 0
    """Ledgers with an incomplete write that was dropped."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing was lost and everything is valid."""
        return not (self.lost or self.unsound or self.unsigned)


@dataclass(frozen=True)
class Desk:
    """Folders of a run."""

    home: Path
    project: Path

    @property
    def tenant(self) -> Path:
        """Folder of the ledger."""
        return self.home / "data" / "default"


def write(desk: Desk, name: str, tell: int, rounds: int) -> None:
    """Write as an agent does, and report every reply. The first writer signs."""
    settings = {**SETTINGS, **({"records.identity": name} if name == SIGNER else {"records.writer": name})}
    with Lorelog(project=desk.project, home=desk.home, settings=settings) as memory:
        for number in range(rounds):
            task = memory.task.start(f"task {number} of {name}")
            os.write(tell, f"{task.artifact_id}\n".encode())
            given = {"task_id": task.task_id}
            said = {"summary": "x" * (number * 997 % 3000), "next_step": "go on"}
            for verb, more in (
                ("task.progress", {**said, "summary": said["summary"] or "begun"}),
                ("artifact.decision", {"summary": f"decision {number}"}),
                ("task.finish", {"what_worked": ["writing"]}),
            ):
                done = memory.call(verb, {**given, **more})
                os.write(tell, f"{done['artifact_id']}\n".encode())


def cycle(desk: Desk, writers: int, chance: random.Random, *, finish: bool) -> tuple[list[str], int]:
    """Fork writers and kill them at random unless they may finish; return acknowledged ids and kills."""
    children: list[tuple[int, int]] = []
    for number in range(writers):
        hear, tell = os.pipe()
        child = os.fork()
        if not child:
            status = 1
            try:
                os.close(hear)
                write(desk, f"agent-{number}", tell, ROUNDS if finish else 1_000_000)
                status = 0
            finally:
                os._exit(status)
        os.close(tell)
        children.append((child, hear))
    heard = {hear: b"" for _, hear in children}
    if not finish:
        for _, hear in children:  # each has begun to write
            heard[hear] += os.read(hear, 65_536)
        for child, _ in chance.sample(children, len(children)):
            time.sleep(chance.random() * LONGEST_S / writers)
            os.kill(child, signal.SIGKILL)
    for _, hear in children:
        while piece := os.read(hear, 65_536):
            heard[hear] += piece
        os.close(hear)
    ends = [os.waitpid(child, 0)[1] for child, _ in children]
    told = [line for said in heard.values() for line in said.decode().split("\n")[:-1]]
    if finish and any(ends):
        raise SystemExit(f"a writer failed: {ends}")
    return told, sum(map(os.WIFSIGNALED, ends))


def look(desk: Desk, told: set[str], tally: Tally) -> int:
    """Compare the ledger with the acknowledged ids; return the number of records."""
    from lorelog.services.records.keyring import Keyring

    keyring = Keyring(desk.home / "identities")
    book = RecordStore(desk.tenant, keyring.signing_key)
    ids = [item.id for item in book.ledger.read()]
    tally.lost += len(told - set(ids))
    known = book.tables().applied_after(0, len(ids) + 1)
    sound = book.ledger.verify().ok and len(set(ids)) == len(ids) == len(known)
    tally.unsound += not sound
    tally.unsigned += sum(not keyring.signing_key(item) for item in book.ledger.read() if item.agent == SIGNER)
    book.close()
    return len(ids)


def run(cycles: int, writers: int, seed: int, *, finish: bool = False) -> Tally:
    """Write and kill a number of times."""
    chance, tally, started = random.Random(seed), Tally(), time.monotonic()
    told: set[str] = set()
    for desk in _desks():
        while tally.cycles < cycles:
            tally.cycles += 1
            more, killed = cycle(desk, writers, chance, finish=finish)
            told.update(more)
            tally.acknowledged += len(more)
            tally.killed += killed
            if tally.cycles % LOOK_EVERY and tally.cycles < cycles:
                continue
            if look(desk, told, tally) > BEGIN_ANEW:
                break
        tally.torn += (desk.tenant / "ledger.torn").exists()
        told.clear()
        if tally.cycles >= cycles:
            break
    tally.seconds = round(time.monotonic() - started, 1)
    return tally


def _desks() -> Iterator[Desk]:
    while True:
        place = Path(tempfile.mkdtemp(prefix="lorelog-kill-"))
        desk = Desk(place / "home", place / "project")
        desk.project.mkdir()
        Keyring(desk.home / "identities").create(SIGNER)
        with Path(os.devnull).open("wb") as nobody:  # what writers load is loaded once, before they are forked
            write(desk, SIGNER, nobody.fileno(), 1)
        try:
            yield desk
        finally:
            shutil.rmtree(place)


def main() -> int:
    """Run and print the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--finish", action="store_true", help="kill nobody: every writer writes all it has")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    tally = run(args.cycles, args.writers, args.seed, finish=args.finish)
    if args.json:
        print(json.dumps({**asdict(tally), "ok": tally.ok}))
    else:
        print(
            f"{tally.cycles} cycles, {tally.killed} writers killed, {tally.acknowledged} records acknowledged:"
            f" {tally.lost} lost, {tally.unsound} times unsound, {tally.unsigned} signatures that do not hold;"
            f" {tally.torn} ledgers had a cut write. {tally.seconds} s"
        )
    return 0 if tally.ok else 1


if __name__ == "__main__":
    sys.exit(main())
