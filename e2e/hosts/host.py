"""What every host has in common: it is started with a prompt, told to go on with a session, or cut off.

A turn is a process of its own wherever the host has a way to do that, because that is the harder case: whatever a hook
left running must survive the host's end. `converse` is for what needs one living process: several turns, compaction.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from e2e.hosts.lines import Lines
from e2e.installing import COMPANIONS
from e2e.model import Request, Step
from e2e.terminal import CONTROL_C, ESCAPE, Terminal
from e2e.world import REPOSITORY, Failed, World

COMPACT = "\0compact"
"""Said in a conversation: not a prompt, but the order to compact."""
TURN_LIMIT_S = 180.0
CORE_ROWS: tuple[str, ...] = ("install", "start", "capture", "recall", "tools", "deliver", "guard", "kill")
"""What every run checks in a host, whatever time there is: installed, told at the start, captured, found, delivered, guarded,
nothing lost."""
FEW_CORE_ROWS = CORE_ROWS[:4]
"""The same in a host that has much of another one: installed, told at the start, captured, found."""
OF_CLAUDE = dict.fromkeys(("typed clear", "typed compact", "queued", "reject"), "typed in Claude Code only, so far")
NO_FORK = {"fork": "it has no command that forks a session"}
NO_JUDGE = {"judge": "lorelog cannot ask its model: no adapter for its program as a judge"}
NO_TERMINAL = dict.fromkeys(("terminal", "escape"), "its terminal program is not driven here, so far")
ONE_TURN = {
    "turns": "several turns in one process need its terminal program",
    "compact": "compaction needs its terminal program",
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a turn came to."""

    session: str
    answer: str
    status: int
    requests: tuple[Request, ...] = ()

    @property
    def asked(self) -> str:
        """All that the model was sent."""
        return "\n".join(request.text for request in self.requests)

    @property
    def results(self) -> list[str]:
        """The results in the last request that has some: a host may ask for a title after it."""
        return next((request.results for request in reversed(self.requests) if request.results), [])


@dataclasses.dataclass
class Running:
    """A host at work, with its output in files."""

    process: subprocess.Popen[str]
    output: Path
    errors: Path
    since: int

    def wait(self, limit_s: float = TURN_LIMIT_S) -> int:
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise Failed(f"the host had not ended its turn after {limit_s:.0f} s: {self.tail()}") from error

    def send(self, which: signal.Signals) -> None:
        """A signal to the host and all that it started itself."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, which)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()

    def printed(self) -> str:
        return self.output.read_text(errors="replace")

    def tail(self) -> str:
        return (self.errors.read_text(errors="replace") + self.printed())[-600:].strip()


class Host(abc.ABC):
    """A host in a world."""

    name: str
    title: str
    folder: str
    """Where its own files are, below the home."""
    changed: tuple[str, ...] = ("settings.json",)
    """Its files in that folder that an installation changes."""
    kept: str
    """Pattern, below that folder, of the files in which it keeps its conversations."""
    shell: str
    """The name of its shell tool, as the model sees it."""
    writer: tuple[str, str, str]
    """The name of the tool that writes a file, and of its parameters for path and text."""
    mcp_prefix = ""
    """What it puts before the names of our MCP tools."""
    takes_prompt = False
    """Whether it reads the prompt from its standard input."""
    skill_mark = "memory-recall"
    """What of the recall skill is in a request that offers it."""
    interrupt_keys: tuple[str, ...] = (ESCAPE,)
    """What stops an answer in the terminal program."""
    leave_keys: tuple[str, ...] = (CONTROL_C, CONTROL_C)
    asks_leave = False
    """Whether the host itself must be told that our hooks may run, before any does."""
    turn_limit_s = TURN_LIMIT_S
    core_rows: tuple[str, ...] = CORE_ROWS
    absent: dict[str, str] = {}  # noqa: RUF012 - overridden whole
    """Rows that this host cannot have, and why."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.installed = world.hosts[self.name]
        self._started = 0

    @property
    def own_folder(self) -> Path:
        return self.world.home / self.folder

    @property
    def plugins(self) -> Path:
        return REPOSITORY / "plugins"

    @abc.abstractmethod
    def configure(self) -> None:
        """Write the host's own configuration, as it is before anybody has heard of us."""

    def bring_plugin(self) -> None:
        """Bring the bundle in by the host's own means, the quickest of them; by our installer if it has none."""
        self.install()

    def prepare(self) -> None:
        """All that is needed before the first turn."""
        self.configure()
        self.bring_plugin()

    def install(self) -> None:
        """Follow the instructions: `lorelog hosts install`, and what it says is still to be done."""
        self.world.lorelog("hosts", "install", self.name)

    def install_unasked(self) -> None:
        """`lorelog hosts install` alone: what it says is still to be done is not."""
        self.install()

    def sit_down(self, *, asks_first: bool = False) -> contextlib.AbstractContextManager[Terminal]:
        """The terminal program, up to where a prompt can be typed; it may ask before each tool call."""
        raise Failed(NO_TERMINAL["terminal"])

    def open_terminal(self, *command: str) -> Terminal:
        return Terminal([str(self.installed.program), *command], self.environment(), self.world)

    def install_natively(self) -> None:
        """Bring the bundle in with the host's own installer, as a person does who has only a checkout."""
        self.bring_plugin()

    @abc.abstractmethod
    def command(self, prompt: str, session: str) -> list[str]:
        """The command of one turn."""

    @abc.abstractmethod
    def read(self, printed: str) -> tuple[str, str]:
        """The session and the answer in what was printed."""

    def converse(self, *says: str, session: str = "") -> Outcome:
        """Several turns in one process; `COMPACT` among them compacts."""
        raise Failed(ONE_TURN["turns"])

    def stream_turns(self, command: Sequence[str], says: Sequence[str], session: str, *, compact: str) -> Outcome:
        """Several turns in one process that reads and writes Claude Code's stream of JSON lines."""
        since = self.world.model.count
        answer = ""
        streams = ["--input-format", "stream-json", "--output-format", "stream-json"]
        with Lines([*command, *streams], self.environment(), self.world) as lines:
            for said in says:
                message = {"role": "user", "content": compact if said == COMPACT else said}
                lines.write({"type": "user", "message": message, "parent_tool_use_id": None})
                told = lines.until(lambda line: line.get("type") == "result", f"an end to {said[:40]!r}")
                answer, session = str(told.get("result", "")), str(told.get("session_id", session))
        return Outcome(session, answer, 0, tuple(self.world.model.requests(since)))

    def write_file(self, path: Path, text: str) -> Step:
        """The model writes a file with the host's own tool."""
        tool, place, content = self.writer
        return Step(tool=tool, arguments={place: str(path), content: text})

    def memory_tool(self, verb: str, value: str) -> Step:
        """The model asks our MCP server: `search` for words, `get` or `transcript` of a memory's id."""
        name = {"search": "search_memory", "get": "get_memory", "transcript": "get_transcript"}[verb]
        argument = "query" if verb == "search" else "id"
        return self.mcp_call(name, {argument: value})

    def mcp_call(self, name: str, arguments: dict[str, str]) -> Step:
        """The call of a tool of ours, by the name that this host gives it."""
        return Step(tool=self.mcp_prefix + name, arguments=dict(arguments))

    def transcripts(self) -> list[Path]:
        """The files in which the host keeps its conversations."""
        return list(self.own_folder.glob(self.kept))

    def has_written(self, word: str) -> bool:
        """Whether the host has put the word on disk."""
        return any(word.encode() in path.read_bytes() for path in self.transcripts() if path.is_file())

    def together(self) -> contextlib.AbstractContextManager[None]:
        """What must run beside two sessions at once."""
        return contextlib.nullcontext()

    def fork(self, prompt: str, session: str) -> Outcome:
        """A turn in a copy of a session."""
        raise Failed(f"{self.title} is not known to fork")

    def use_skill(self, asked: str, question: str, search: Step) -> Outcome:
        """The model reads the skill and does as it says. Here: it is found in the request, and its command is run."""
        self.world.model.script(asked, search, Step("Read it."))
        outcome = self.turn(f"{asked}: {question}?")
        named = re.findall(r"[^\s\"'<>`()\\]*memory-recall/SKILL\.md", outcome.asked)
        if not any(self._is_there(name) for name in named):
            raise Failed(f"no request tells where the skill lies: {named}")
        return outcome

    def read_skill(self, call: Step, asked: str, question: str, search: Step) -> Outcome:
        """The model calls the host's own tool, which reads the skill into the conversation, and does as it says."""
        self.world.model.script(asked, call, search, Step("Read it."))
        return self.turn(f"{asked}: {question}?")

    def _is_there(self, name: str) -> bool:
        """Whether a path that a request names is a file; some hosts shorten its beginning to a name of their own."""
        path = Path(name.replace("~", str(self.world.home), 1))
        return path.is_file() or any(
            found.match(str(Path(*path.parts[1:]))) for found in self.world.home.rglob("SKILL.md")
        )

    def other(self) -> Host:
        """Another host in the same world, for what they share."""
        from e2e.hosts import HOSTS

        others = [name for name in COMPANIONS if name != self.name and name in self.world.hosts]
        if not others:
            raise Failed("there is no other host here to write a memory")
        return HOSTS[others[0]](self.world)

    def run_shell(self, command: str) -> Step:
        """The model runs a command."""
        return Step(tool=self.shell, arguments={"command": command})

    def environment(self) -> dict[str, str]:
        return self.world.environment()

    def start(self, prompt: str, session: str = "") -> Running:
        """Begin a turn and do not wait."""
        return self.launch(self.command(prompt, session), prompt if self.takes_prompt else "")

    def launch(self, command: Sequence[str], typed: str = "") -> Running:
        self._started += 1
        stem = f"{self.name}-{self._started:02d}"
        output, errors = self.world.logs / f"{stem}.out", self.world.logs / f"{stem}.err"
        since = self.world.model.count
        with output.open("w") as out, errors.open("w") as err:
            process = subprocess.Popen(
                command,
                cwd=self.world.project,
                env=self.environment(),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                text=True,
                start_new_session=True,
            )
        stdin = process.stdin
        if stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                stdin.write(typed)
                stdin.close()
        return Running(process, output, errors, since)

    def finish(self, running: Running) -> Outcome:
        """Wait for a turn that was started."""
        status = running.wait(self.turn_limit_s)
        session, answer = self.read(running.printed())
        return Outcome(session, answer, status, tuple(self.world.model.requests(running.since)))

    def turn(self, prompt: str, session: str = "") -> Outcome:
        """One turn, and it must end well."""
        return self.complete(self.start(prompt, session))

    def complete(self, running: Running) -> Outcome:
        """Wait for a turn that must end well."""
        outcome = self.finish(running)
        if outcome.status != 0:
            raise Failed(f"the host ended with {outcome.status}: {running.tail()}")
        if not outcome.session:
            raise Failed(f"the host told no session: {running.tail()}")
        return outcome

    def run_aside(self, *command: str, limit_s: float = 120.0) -> str:
        """Run one of the host's own commands, as in installing a plugin."""
        done = subprocess.run(
            [str(self.installed.program), *command],
            cwd=self.world.project,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode != 0:
            raise Failed(f"{self.name} {' '.join(command)} ended with {done.returncode}: {done.stderr[-400:]}")
        return done.stdout
