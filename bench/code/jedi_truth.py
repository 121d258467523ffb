"""What jedi says of Python code, on standard output: who refers to a definition. Runs in an environment of its own,
with jedi.

Reads JSON: {"root": DIR, "asked": [[path, line, column], …]} (lines from 1, columns from 0). Writes a JSON line for
each: a list of [path, line, column] without the definition itself, or null where jedi fails.
"""

import json
import sys

import jedi  # type: ignore[import-not-found]


def main() -> None:
    """Answer the requests on standard input."""
    asked = json.load(sys.stdin)
    project = jedi.Project(asked["root"])
    for path, line, column in asked["asked"]:
        try:
            script = jedi.Script(path=path, project=project)
            found = script.get_references(line, column, include_builtins=False)
            places = [[str(item.module_path), item.line, item.column] for item in found if item.module_path]
        except Exception:  # noqa: BLE001  (whatever jedi does not know, it cannot judge)
            places = None
        print(json.dumps(places), flush=True)


if __name__ == "__main__":
    main()
