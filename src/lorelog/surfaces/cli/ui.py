"""Open the page: search, memories, what agents were told, records, health and settings in your browser.

The page is served on this machine only, as by 'lorelog serve'; if a server of this home runs, it is used. The address has a
ticket that works once, so each browser is opened by this command. Press Ctrl-C to stop the server.

examples:
  lorelog ui
  lorelog ui 65fcbf6e
  lorelog ui --no-open
"""

from __future__ import annotations

import argparse
import os
from urllib.parse import quote

from lorelog.surfaces.cli.arguments import MAX_PORT, add_daemon_option, whole_number


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare arguments and options."""
    parser.add_argument("id", nargs="?", default="", metavar="ID", help="show this memory first")
    parser.add_argument("--no-open", action="store_true", help="print the address instead of opening a browser")
    parser.add_argument(
        "--port", type=whole_number(0, MAX_PORT), metavar="N", help="port; 0 chooses a free one (http.port)"
    )
    parser.add_argument("--project", metavar="DIR", help="the project to show")
    add_daemon_option(parser)


def run(args: argparse.Namespace) -> int:
    """Open the page of a running server, or serve it until interrupted."""
    view = f"memory/{quote(args.id)}" if args.id else "search"
    return serve_page(
        "lorelog ui", view, project=args.project, port=args.port, warm=args.warm, opens_browser=not args.no_open
    )


def serve_page(
    command: str,
    view: str,
    *,
    project: str | None,
    port: int | None,
    warm: str | None = None,
    opens_browser: bool = False,
) -> int:
    """Show a view of the page: on a running server of this home, or on one that serves until it is interrupted."""
    from lorelog.core.extras import require_extra

    require_extra("serve", command)
    from lorelog.core.caller import detect_agent
    from lorelog.surfaces.cli.serve import serve_home
    from lorelog.surfaces.http.tickets import find_server, issue_ticket
    from lorelog.wiring import resolve_location

    location = resolve_location(project=project)
    home = str(location.home)
    fragment = f"#/{view}?project={quote(location.project.root)}"

    def show(url: str, port: int) -> None:
        ticket = issue_ticket(home, port, detect_agent(os.environ))
        _show(f"{url}/?ticket={ticket}{fragment}", opens=opens_browser)

    running = find_server(home) if port is None else None
    if running is not None:
        show(*running)
        return 0
    flags = {"http.host": "127.0.0.1", "http.port": port, "daemon.warm": warm}
    serve_home(location, flags, started=show, any_port=port is None)
    return 0


def _show(address: str, *, opens: bool) -> None:
    """Open the address in a browser, or print it: it works once, so a terminal's history does not matter."""
    from lorelog.surfaces.cli.render import print_note

    if opens:
        import webbrowser

        try:
            if webbrowser.open(address):
                print(f"Opened {address.partition('?')[0]} in your browser.", flush=True)
                return
        except webbrowser.Error:
            pass
        print_note("no browser could be started; open this address, which works once:")
    print(address, flush=True)
