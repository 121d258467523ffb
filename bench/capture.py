"""What the capture of a turn costs by the size of its session's transcript.

    python -m bench.capture [--megabytes 20] [--turns 10]

Two sessions of Claude Code, one with a transcript of 20 MB and one of 20 KB. In turn each gets one more turn of the conversation, and
`lorelog hook claude turn-end` runs as the host runs it. Measured is the time from the end of the hook until the turn is in the journal,
and the bytes that the daemon read meanwhile (/proc/PID/io, `rchar`: files and sockets). The first turn of each is not counted: it reads
the transcript for the first time. All of it once without a model, and once with the built-in one, which embeds the note of the turn
after it was written. The model is chosen in config.toml: hooks do not pass their variables on. Linux only.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import own_program
from bench.corpus import Writer
from bench.measure import CommandFailed, median
from bench.result import Verdicts
from bench.warm_home import WarmHome, home_environment, new_project, show_mb, show_ms, start_daemon

MOST_S = 0.080
MOST_BYTES_FOR_A_TURN = 1_000_000
"""Most that a capture of a turn of a few kilobytes may read: "only what is new", and what the index needs."""
SMALL_BYTES = 20_000
PATIENCE_S = 60.0


@dataclass
class Session:
    """A session of the host, and what its captures cost."""

    name: str
    transcript: Path
    turns: int = 0
    answer: str = ""
    """The last one."""
    delays: list[float] = field(default_factory=list)
    read: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def add_turn(self, writer: Writer, *, answer_lines: int = 12) -> str:
        """Append a prompt and its answer, which ends with a word of its own; return that word."""
        self.turns += 1
        mark = f"{self.name}mark{self.turns:06d}"
        self.answer = " ".join(writer.sentence() for _ in range(answer_lines)) + f" Done: {mark}."
        said = (("user", f"Please look at {writer.phrase(6)} {mark}"), ("assistant", self.answer))
        with self.transcript.open("a", encoding="utf-8") as file:
            for number, (role, text) in enumerate(said):
                file.write(json.dumps(self._line(role, text, 2 * self.turns + number)) + "\n")
        return mark

    def _line(self, role: str, text: str, number: int) -> dict[str, object]:
        minutes, seconds = divmod(number, 60)
        return {
            "type": role,
            "uuid": f"{self.name}-{number}",
            "parentUuid": f"{self.name}-{number - 1}" if number else None,
            "promptId": f"p{self.turns}",
            "isSidechain": False,
            "sessionId": self.name,
            "timestamp": f"2026-02-{14 + minutes // 1440:02d}T{minutes // 60 % 24:02d}:{minutes % 60:02d}:{seconds:02d}.000Z",
            "message": {"role": role, "id": f"m{number}", "content": [{"type": "text", "text": text}]},
        }


def main() -> int:
    options = _arguments()
    verdicts = Verdicts()
    sizes = {"large": int(options.megabytes * 1e6), "small": SMALL_BYTES}
    without, with_model = (_measure(sizes, options.turns, provider) for provider in ("none", "builtin"))
    _show({"none": without, "built-in": with_model}, sizes)
    _judge(without[0], options.megabytes, verdicts)
    print(f"\n{verdicts.table()}")
    return 1 if verdicts.missed else 0


def _measure(sizes: dict[str, int], turns: int, provider: str) -> list[Session]:
    """Capture turns of a session of each size in a home with an embedding provider."""
    writer = Writer(7)
    with tempfile.TemporaryDirectory(prefix="capture-") as made:
        place = Path(made)
        project = new_project(place)
        environment = home_environment(place)
        (place / "home").mkdir(mode=0o700)
        (place / "home" / "config.toml").write_text(f'[embedding]\nprovider = "{provider}"\n', "utf-8")
        sessions = [_session(place, name, size, writer) for name, size in sizes.items()]
        with start_daemon(project, environment) as home:
            for number in range(turns + 1):
                for session in sessions:
                    _capture(home, session, session.add_turn(writer), counted=number > 0)
    return sessions


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=20, metavar="N", help="size of the large transcript (20)")
    parser.add_argument("--turns", type=int, default=10, metavar="N", help="turns of each session (10)")
    return parser.parse_args()


def _session(place: Path, name: str, size: int, writer: Writer) -> Session:
    """Write a transcript of about so many bytes: turns of 20 KB in the large one, as real ones with tool calls have."""
    session = Session(name, place / f"{name}.jsonl")
    session.transcript.touch()
    while session.transcript.stat().st_size < size:
        session.add_turn(writer, answer_lines=250 if size > SMALL_BYTES else 12)
    return session


def _capture(home: WarmHome, session: Session, mark: str, *, counted: bool) -> None:
    """Run the hook at the end of a turn, and wait until the turn is in the journal."""
    payload = {
        "session_id": session.name,
        "transcript_path": str(session.transcript),
        "cwd": str(home.project),
        "prompt_id": f"p{session.turns}",
        "stop_hook_active": False,
        "last_assistant_message": session.answer,
    }
    read, cpu_s = home.bytes_read(), home.cpu_s()
    subprocess.run(
        [str(own_program()), "hook", "claude", "turn-end"],
        input=json.dumps(payload).encode(),
        env=dict(home.environment),
        cwd=home.project,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    began = time.perf_counter()
    end = began + PATIENCE_S
    while not _is_in_journal(home.project, mark):
        if time.perf_counter() > end:
            raise CommandFailed(f"a turn of the {session.name} session was not in the journal after {PATIENCE_S:g} s")
        time.sleep(0.002)
    delay = time.perf_counter() - began
    home.settle()  # what the daemon does after the write belongs to the capture, too
    if counted:
        session.delays.append(delay)
        session.read.append(home.bytes_read() - read)
        session.cpu_s.append(home.cpu_s() - cpu_s)


def _is_in_journal(project: Path, mark: str) -> bool:
    return any(mark in path.read_text("utf-8") for path in (project / ".lorelog" / "memory").glob("*.md"))


def _show(by_model: dict[str, list[Session]], sizes: dict[str, int]) -> None:
    print(
        "From the end of the hook to the journal; medians. The CPU time includes what follows: the index, and with a model the vector.\n"
    )
    print("| model | transcript | turns captured | delay | slowest | CPU of the daemon | bytes read by the daemon |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for model, sessions in by_model.items():
        for session in sessions:
            times = [median(session.delays), max(session.delays), median(session.cpu_s)]
            cells = [model, show_mb(sizes[session.name]), str(len(session.delays)), *map(show_ms, times)]
            print(f"| {' | '.join(cells)} | {show_mb(median(session.read))} |")


def _judge(session: Session, megabytes: float, verdicts: Verdicts) -> None:
    delay, read = median(session.delays), median(session.read)
    what = f"capture of a turn, transcript of {megabytes:g} MB"
    verdicts.judge(f"{what}: delay", show_ms(delay), f"<= {show_ms(MOST_S)}", met=delay <= MOST_S, headline=True)
    limit = f"only what is new: <= {show_mb(MOST_BYTES_FOR_A_TURN)}"
    verdicts.judge(f"{what}: read", show_mb(read), limit, met=read <= MOST_BYTES_FOR_A_TURN, headline=True)


if __name__ == "__main__":
    sys.exit(main())
