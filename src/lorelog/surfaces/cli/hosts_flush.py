"""Turn what hooks have spooled into memories now, in place of waiting for the daemon.

Where no daemon is wanted (daemon.warm = off) hooks start this by themselves. What is not complete yet is waited for a while;
what does not work stays in the spool and is tried again the next time.

examples:
  lorelog hosts flush
  lorelog hosts flush --wait 0       do not wait for transcripts that are not complete yet
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lorelog.surfaces.cli.asking import add_warm
from lorelog.surfaces.cli.elsewhere import Elsewhere
from lorelog.surfaces.cli.paper import note, plural, print_json

if TYPE_CHECKING:
    import argparse

    from lorelog.services.session.drain import Drained, Drainer

_WAIT_S = 70.0
"""A transcript that is not there after a minute does not come any more."""
_OTHER_S = 10.0
_PAUSE_S = 0.1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument(
        "--wait",
        type=float,
        default=_WAIT_S,
        metavar="SECONDS",
        help="how long to wait for transcripts that are not complete yet (default: %(default).0f)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (docs/json.md) instead of text")
    add_warm(parser)


def run(args: argparse.Namespace) -> int:
    """Drain, and fail when an event did."""
    from lorelog.services.session.asking import arguments_of, directory_of
    from lorelog.services.session.drain import Drainer
    from lorelog.surfaces.daemon.address import find_address

    home = find_address(None, None).home
    asker = Elsewhere(args.warm)

    def capture(event: dict[str, Any]) -> dict[str, Any]:
        return asker.ask("session.capture", arguments_of(event), directory_of(event, home), event.get("environment"))

    try:
        drained = _drain(Drainer(home, capture), args.wait)
    finally:
        asker.close()
    _show(drained, as_json=args.json)
    return 1 if drained.failed or drained.parked else 0


def _drain(drainer: Drainer, wait_s: float) -> Drained:
    """Drain until nothing is left that time alone would mend, nor came meanwhile: hooks leave it to who is at it."""
    started = time.monotonic()
    drained = last = drainer.drain()
    while last.pause_s is not None or last.events or last.parked:
        if last.pause_s is not None:
            left = started + (_OTHER_S if last.busy else wait_s) - time.monotonic()
            if left <= 0 or not (last.waiting or last.busy):
                break
            time.sleep(max(0.0, min(left, max(_PAUSE_S, min(last.pause_s, 1.0)))))
        last = drainer.drain()
        drained += last
    return drained


def _show(drained: Drained, *, as_json: bool) -> None:
    if as_json:
        shape = asdict(drained)
        del shape["pause_s"]
        print_json(shape)
        return
    for text in drained.notes:
        note(text)
    if drained.busy:
        print("Another process is seeing to the spool.")
        return
    print(f"Captured {plural(drained.captured, 'turn')} of {plural(drained.events, 'event')}.")
    if drained.waiting:
        note(f"{plural(drained.waiting, 'event')} left in the spool: the transcript is not complete yet")
    if drained.failed:
        note(f"{plural(drained.failed, 'event')} left in the spool to be tried again")
    if drained.parked:
        note(f"{plural(drained.parked, 'event')} set aside in spool/failed")
