"""How fast the page is in a real browser, with 10,000 memories: first paint, search as you type, the list.

    python -m bench.page_speed [--size 10000] [--questions 12] [--chromium PATH] [--quick] [--keep DIR]

The home is filled from made-up journals with made-up vectors; questions are embedded by the built-in model. `lorelog ui`
serves the page, the daemon answers, as for a user. A question is typed letter by letter: the time of a letter is that from
the key to the results of the text that it made, in the page. On a loaded machine times are worth little, so the CPU time
of daemon and server, and the browser's own time for scripts and layout, stand beside them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contenders import own_program
from bench.corpus import questions, write_journals
from bench.growth import MadeUpVectors
from bench.measure import median
from bench.result import Verdicts
from bench.warm_home import CLOCK_TICKS, WarmHome, home_environment, new_project, percentile, show_ms, start_daemon
from tests.page.browser import Browser, Tab, find_chromium

from lorelog.wiring import ResourcePool, resolve_location

SIZE = 10_000
PAINT_S, LETTER_S = 0.300, 0.100
LETTER_PAUSE_S = 0.12
"""Between two letters: a fast typist."""
LOADS = 5
MAX_REQUESTS = 24
MAX_ROWS = 60

WATCH = """
new MutationObserver(() => {
  if (!window.listShown && document.querySelector('.row')) window.listShown = performance.now();
}).observe(document, { childList: true, subtree: true });
"""
TYPE = """
new Promise(done => {
  const field = document.querySelector('input[type=search]');
  const text = %r, began = performance.now();
  const look = () => document.querySelector('.results')?.dataset.question === text.trim()
    ? done(performance.now() - began) : requestAnimationFrame(look);
  field.value = text;
  field.dispatchEvent(new Event('input', { bubbles: true }));
  look();
})
"""


@dataclass
class Seen:
    """What was measured. Times are in seconds."""

    paint: list[float] = field(default_factory=list)
    listed: list[float] = field(default_factory=list)
    requests: int = 0
    bytes: int = 0
    letters: list[float] = field(default_factory=list)
    searches: int = 0
    letter_cpu: dict[str, float] = field(default_factory=dict)
    pages_scrolled: int = 0
    rows: int = 0
    scroll_cpu: float = 0.0


def main() -> int:
    options = _arguments()
    program = options.chromium or find_chromium()
    if program is None:
        print("NO CHROMIUM HERE: nothing was measured. Install it, or set LORELOG_TEST_CHROMIUM.")
        return 3
    seen = Seen()
    with ExitStack() as held:
        place = options.keep or Path(held.enter_context(tempfile.TemporaryDirectory(prefix="page-speed-")))
        environment = home_environment(place)
        _fill(place, options.size, environment)
        home = held.enter_context(start_daemon(place / "app", environment))
        server = held.enter_context(_serve(home))
        browser = held.enter_context(Browser(program))
        for _ in range(LOADS):
            _load(browser, server.address(), seen)
        tab = browser.open(server.address())
        _type_questions(tab, home, server, options.questions, seen)
        _scroll(tab, options.size, seen)
    verdicts = _judge(seen, options.size)
    _show(seen)
    print(f"\n{verdicts.table()}")
    return 1 if verdicts.missed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=SIZE, metavar="N", help="memories (10000)")
    parser.add_argument("--questions", type=int, default=12, metavar="N", help="questions that are typed (12)")
    parser.add_argument("--chromium", metavar="PATH", help="the browser; otherwise LORELOG_TEST_CHROMIUM or the path's")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the home here, and use the one that is there")
    parser.add_argument("--quick", action="store_true", help="500 memories and 2 questions")
    options = parser.parse_args()
    if options.quick:
        options.size, options.questions = 500, 2
    return options


def _fill(place: Path, size: int, environment: Mapping[str, str]) -> None:
    if (place / "filled").exists():
        return
    project = new_project(place)
    write_journals(project / ".lorelog" / "memory", size)
    holdings = ResourcePool()
    with holdings.engine(resolve_location(directory=str(project), environment=dict(environment)), {}) as engine:
        engine.with_embedder(MadeUpVectors).maintenance().index()
    holdings.close()
    (place / "filled").touch()


@dataclass(frozen=True)
class _Server:
    """A running `lorelog ui`."""

    home: WarmHome
    pid: int

    def address(self) -> str:
        """Return an address that works once."""
        done = subprocess.run(
            [str(own_program()), "ui", "--no-open"],
            cwd=self.home.project,
            env=dict(self.home.environment),
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip().replace("#/home?", "#/search?")

    def cpu_s(self) -> float:
        """Return the CPU time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


@contextmanager
def _serve(home: WarmHome) -> Iterator[_Server]:
    process = subprocess.Popen(
        [str(own_program()), "ui", "--no-open", "--port", "0"],
        cwd=home.project,
        env=dict(home.environment),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield _Server(home, process.pid)
    finally:
        process.terminate()
        process.communicate()


def _load(browser: Browser, address: str, seen: Seen) -> None:
    """Load the page in a new profile: nothing is cached."""
    tab = browser.open("about:blank")
    tab.send("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
    tab.go(address)
    tab.wait("window.listShown && performance.getEntriesByName('first-contentful-paint').length", 60)
    html, paint, listed = tab.run(
        "[performance.getEntriesByType('navigation')[0].responseEnd,"
        " performance.getEntriesByName('first-contentful-paint')[0].startTime, window.listShown]"
    )
    seen.paint.append((paint - html) / 1000)
    seen.listed.append((listed - html) / 1000)
    time.sleep(1)  # what is loaded after the list
    loaded = tab.run("performance.getEntriesByType('resource').map(r => r.transferSize)")
    seen.requests, seen.bytes = len(loaded) + 1, sum(loaded)


def _type_questions(tab: Tab, home: WarmHome, server: _Server, count: int, seen: Seen) -> None:
    """Type questions letter by letter; the first one warms up and is not counted."""
    tab.wait("document.querySelector('.row')", 60)
    asked = [question.removeprefix("why was the ") for question in questions(count + 1, seed=77)]
    before: dict[str, float] = {}
    for number, question in enumerate(asked):
        if number == 1:
            home.settle()
            before = {"daemon": home.cpu_s(), "server": server.cpu_s(), "browser": _browser_cpu(tab)}
            tab.run("performance.clearResourceTimings()")
        for end in range(1, len(question) + 1):
            if question[end - 1] == " ":
                continue
            took = tab.run(TYPE % question[:end]) / 1000
            if number:
                seen.letters.append(took)
            time.sleep(max(0.0, LETTER_PAUSE_S - took))
        tab.run("performance.setResourceTimingBufferSize(5000)")
    seen.searches = tab.run(
        "performance.getEntriesByType('resource').filter(r => r.name.endsWith('memory.search')).length"
    )
    after = {"daemon": home.cpu_s(), "server": server.cpu_s(), "browser": _browser_cpu(tab)}
    seen.letter_cpu = {name: (after[name] - before[name]) / len(seen.letters) for name in after}


def _scroll(tab: Tab, size: int, seen: Seen) -> None:
    """Scroll from the first memory to the last, half a screen at a time at first, then in leaps."""
    tab.fill("input[type=search]", "")
    tab.wait("document.querySelector('.results')?.dataset.question === ''", 60)
    box = "document.querySelector('.long-list')"
    last = f"document.querySelector('#row-{size - 1}')"
    while not tab.run(f"!!{last}"):
        tab.run(f"{box}.scrollTop = {box}.scrollHeight")
        time.sleep(0.05)
        seen.rows = max(seen.rows, tab.run("document.querySelectorAll('.row').length"))
    tab.run(f"{box}.scrollTop = 0")
    began = _browser_cpu(tab)
    for _ in range(100):
        tab.run(
            f"new Promise(done => {{ {box}.scrollTop += 400; requestAnimationFrame(() => requestAnimationFrame(done)); }})"
        )
        seen.pages_scrolled += 1
    seen.rows = max(seen.rows, tab.run("document.querySelectorAll('.row').length"))
    seen.scroll_cpu = (_browser_cpu(tab) - began) / seen.pages_scrolled


def _browser_cpu(tab: Tab) -> float:
    """Return the seconds that the tab spent in tasks: scripts, style and layout."""
    tab.send("Performance.enable", timeDomain="threadTicks")
    metrics: list[dict[str, Any]] = tab.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def _judge(seen: Seen, size: int) -> Verdicts:
    verdicts = Verdicts()
    where = f"page, {size:,} memories"
    for what, value, most, headline in (
        ("first paint after the HTML, nothing cached: median", median(seen.paint), PAINT_S, True),
        ("search as you type, from the key to the results: p95", percentile(seen.letters, 95), LETTER_S, True),
    ):
        verdicts.judge(f"{where}: {what}", show_ms(value), f"<= {show_ms(most)}", met=value <= most, headline=headline)
    counts = (
        ("requests of the first load", seen.requests, MAX_REQUESTS),
        ("rows that exist at a time", seen.rows, MAX_ROWS),
    )
    for what, count, limit in counts:
        verdicts.judge(f"{where}: {what}", str(count), f"<= {limit}", met=count <= limit)
    return verdicts


def _show(seen: Seen) -> None:
    cpu = ", ".join(f"{name} {show_ms(value)}" for name, value in seen.letter_cpu.items())
    rows = {
        "first paint after the HTML, each load": ", ".join(map(show_ms, seen.paint)),
        "list of the newest memories after the HTML": ", ".join(map(show_ms, seen.listed)),
        "first load": f"{seen.requests} requests, {seen.bytes / 1000:.0f} KB",
        "a letter: p50 / p95": f"{show_ms(median(seen.letters))} / {show_ms(percentile(seen.letters, 95))}",
        "a letter: CPU time": cpu,
        "letters / searches": f"{len(seen.letters)} / {seen.searches}",
        "half a screen of scrolling: time of the tab": show_ms(seen.scroll_cpu),
    }
    load = os.getloadavg()[0]
    print(f"Load of the machine at the end: {load:.1f}\n\n| | |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    sys.exit(main())
