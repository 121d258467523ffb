"""The token: made once, required by default, sent as a header."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.surfaces.conftest import command_line, run_process
from tests.surfaces.http.conftest import Client
from tests.threads import in_threads

from lorelog.surfaces.http.tickets import home_token, token_path


def test_the_token_is_made_once_and_only_its_owner_can_read_it(home: Path) -> None:
    """Processes that start at once share one token in a private file; one that others could read is replaced."""
    found: list[str] = []
    assert in_threads(lambda _: found.append(home_token(str(home))), 8) == []
    path = Path(token_path(str(home)))

    assert set(found) == {path.read_text("ascii").strip()}
    assert len(found[0]) >= 43
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in path.parent.iterdir()) == ["http.token"]
    path.chmod(0o644)
    assert home_token(str(home)) not in found
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_serve_requires_the_token_of_the_home(project: Path, home: Path) -> None:
    """`lorelog serve` refuses who has no token, and keeps the token out of its output; `--no-token` warns and serves."""
    outputs = []
    for words, without, with_it in (((), 401, 200), (("--no-token",), 200, 200)):
        with subprocess.Popen(
            command_line("serve", "--port", 0, "--daemon", "off", *words),
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline().split()[1].rpartition(":")[2])
            stranger, owner = Client(port), Client(port, {"Authorization": f"Bearer {home_token(str(home))}"})
            assert stranger.get("/health").status == 200
            assert (stranger.call("stats").status, owner.call("stats").status) == (without, with_it)
            server.terminate()
            outputs.append("".join(server.communicate()))

    assert home_token(str(home)) not in "".join(outputs)
    assert f"{os.path.realpath(home)}/run/http.token" in outputs[0] or "run/http.token" in outputs[0]
    assert "every user of this machine" in outputs[1]
    both = run_process(["serve", "--no-token", "--token-env", "X"], project)
    assert (both.status, "exclude each other" in both.err) == (2, True)
