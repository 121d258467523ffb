"""A headless Chromium, driven over a pipe with its DevTools protocol: enough to type, click, read and take pictures."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT_S = 15.0


def find_chromium() -> str | None:
    """Return the path of Chromium: LORELOG_TEST_CHROMIUM, or a program of the path."""
    named = os.environ.get("LORELOG_TEST_CHROMIUM")
    return named or next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class PageError(Exception):
    """Raised for an error in the page or of the protocol."""


class Browser:
    """A running Chromium with an empty profile."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="lorelog-chromium-")
        (read_by_browser, self._write), (self._read, write_by_browser) = os.pipe(), os.pipe()
        words = [
            program,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--force-color-profile=srgb",
            f"--user-data-dir={self._profile}",
            "--remote-debugging-pipe",
        ]

        def arrange() -> None:  # the protocol is spoken on the descriptors 3 and 4
            incoming, outgoing = (fcntl.fcntl(each, fcntl.F_DUPFD, 64) for each in (read_by_browser, write_by_browser))
            os.dup2(incoming, 3)
            os.dup2(outgoing, 4)

        self._process = subprocess.Popen(
            words,
            pass_fds=(3, 4),
            preexec_fn=arrange,  # noqa: PLW1509  (it only duplicates descriptors)
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._profile},
        )
        os.close(read_by_browser)
        os.close(write_by_browser)
        self._next = 0
        self._replies: dict[int, Queue[dict[str, Any]]] = {}
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        self._contexts: list[str] = []
        threading.Thread(target=self._receive, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def send(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        self._next += 1
        number = self._next
        queue = self._replies.setdefault(number, Queue())
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        try:
            reply = queue.get(timeout=WAIT_S)
        except Empty:
            raise PageError(f"no reply to {method}") from None
        if "error" in reply:
            raise PageError(f"{method}: {reply['error']['message']}")
        result: dict[str, Any] = reply["result"]
        return result

    def open(self, url: str = "about:blank", **emulated: Any) -> Tab:
        """Open a tab in a context of its own, with its own cookies."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        self._contexts.append(context)
        return self.tab(context, url, **emulated)

    def close_tabs(self) -> None:
        """Close all tabs: each has processes of its own and goes on asking its server."""
        self._listeners.clear()
        while self._contexts:
            self.send("Target.disposeBrowserContext", browserContextId=self._contexts.pop())

    def tab(self, context: str, url: str, **emulated: Any) -> Tab:
        """Open a tab beside others of a context."""
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, session, context)
        tab.prepare(**emulated)
        tab.go(url)
        return tab

    def listen(self, listener: Callable[[dict[str, Any]], None]) -> None:
        self._listeners.append(listener)

    def _receive(self) -> None:
        pending = b""
        with os.fdopen(self._read, "rb", buffering=0) as stream:
            while part := stream.read(1 << 20):
                *messages, pending = (pending + part).split(b"\0")
                for text in messages:
                    message = json.loads(text)
                    if "id" in message:
                        self._replies.setdefault(message["id"], Queue()).put(message)
                    else:
                        for listener in list(self._listeners):
                            listener(message)


class Tab:
    """One tab. Its errors and the addresses it asked for are kept."""

    def __init__(self, browser: Browser, session: str, context: str) -> None:
        self.browser = browser
        self.context = context
        self._session = session
        self.errors: list[str] = []
        self.requests: list[str] = []
        browser.listen(self._note)

    def prepare(self, *, width: int = 1360, height: int = 860, dark: bool = False, scale: float = 1.0) -> None:
        """Set the size of the window and the colours that the system prefers."""
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.send(f"{domain}.enable")
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.send("Emulation.setEmulatedMedia", features=features)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command to this tab."""
        return self.browser.send(method, self._session, **parameters)

    def go(self, url: str) -> None:
        self.send("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression; promises are awaited."""
        reply = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in reply:
            details = reply["exceptionDetails"]
            raise PageError(str(details.get("exception", {}).get("description") or details["text"]))
        return reply["result"].get("value")

    def wait(self, condition: str, seconds: float = WAIT_S) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                if self.run(f"!!({condition})"):
                    return
            except PageError:  # the page is loading
                pass
            time.sleep(0.03)
        raise PageError(f"waited in vain for {condition}\n{self.text()[:2000]}\n{self.errors}")

    def wait_text(self, text: str) -> None:
        self.wait(f"document.body.innerText.includes({json.dumps(text)})")

    def wait_quiet(self, seconds: float = 2.0) -> None:
        """Wait until the page has requested nothing for some seconds."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            count = len(self.requests)
            time.sleep(seconds)
            if len(self.requests) == count:
                return
        raise PageError(f"the page goes on requesting {self.requests[-3:]}")

    def text(self) -> str:
        return str(self.run("document.body.innerText"))

    def click(self, selector: str, text: str = "") -> None:
        """Click the first element that matches, and that contains a text."""
        found = f"[...document.querySelectorAll({json.dumps(selector)})].find(e => e.innerText?.includes({json.dumps(text)}))"
        self.wait(f"!!({found})")
        self.run(f"({found}).click()")

    def fill(self, selector: str, text: str) -> None:
        """Put a text into a field, as typing does."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"!!{field}")
        self.run(
            f"(() => {{ const f = {field}; f.focus(); f.value = {json.dumps(text)};"
            " f.dispatchEvent(new Event('input', { bubbles: true })); })()"
        )

    def choose(self, selector: str, value: str) -> None:
        """Choose a value of a list."""
        event = "f.dispatchEvent(new Event('change', { bubbles: true }))"
        self.run(f"(f => {{ f.value = {value!r}; {event}; }})(document.querySelector({selector!r}))")

    def press(self, key: str, *, control: bool = False) -> None:
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38}.get(key, 0)
        text = {"text": "\r" if key == "Enter" else key} if (len(key) == 1 or key == "Enter") and not control else {}
        held = {"modifiers": 2} if control else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text, **held)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def type(self, text: str, pauses_ms: tuple[int, ...]) -> None:
        """Press a key for each letter, with pauses between them that repeat in this order."""
        for number, letter in enumerate(text):
            self.press(letter)
            time.sleep(pauses_ms[number % len(pauses_ms)] / 1000)

    def picture(self, path: Path) -> None:
        """Write a PNG of what is visible."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", format="png")["data"]))

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("sessionId") != self._session:
            return
        parameters = event["params"]
        if event["method"] == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(str(details.get("exception", {}).get("description") or details["text"]))
        elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
