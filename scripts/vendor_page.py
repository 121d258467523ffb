"""Copy the page's JavaScript libraries from npm packages into the source tree, with their licences.

    npm pack preact@11.2.0 htm@3.1.1 @preact/signals@2.11.4 @preact/signals-core@1.14.5
    python scripts/vendor_page.py FOLDER

One edit makes the files work in a browser without a build: imports name the file beside them instead of a package (so
that the page needs no import map, which would be an inline script).
"""

from __future__ import annotations

import hashlib
import sys
import tarfile
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/lorelog/surfaces/page/static/vendor"
FILES = {
    "preact.js": ("preact-11.2.0.tgz", "dist/preact.mjs"),
    "hooks.js": ("preact-11.2.0.tgz", "hooks/dist/hooks.mjs"),
    "htm.js": ("htm-3.1.1.tgz", "dist/htm.mjs"),
    "signals.js": ("preact-signals-2.11.4.tgz", "dist/signals.mjs"),
    "signals-core.js": ("preact-signals-core-1.14.5.tgz", "dist/signals-core.mjs"),
    "LICENSE-preact.txt": ("preact-11.2.0.tgz", "LICENSE"),
    "LICENSE-htm.txt": ("htm-3.1.1.tgz", "LICENSE"),
    "LICENSE-signals.txt": ("preact-signals-core-1.14.5.tgz", "LICENSE"),
}
PACKAGES = {"preact": "preact.js", "preact/hooks": "hooks.js", "@preact/signals-core": "signals-core.js"}


def main(folder: Path) -> None:
    """Write the files, and a list of their SHA-256."""
    TARGET.mkdir(parents=True, exist_ok=True)
    sums = []
    for name, (archive, member) in FILES.items():
        with tarfile.open(folder / archive) as package:
            file = package.extractfile(f"package/{member}")
            text = "" if file is None else file.read().decode()
        if name.endswith(".js"):
            text = "\n".join(line for line in text.splitlines() if not line.startswith("//# sourceMappingURL"))
            for package_name, local in PACKAGES.items():
                text = text.replace(f'from"{package_name}"', f'from"./{local}"')
            text += "\n"
        (TARGET / name).write_text(text)
        sums.append(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}  {archive.removesuffix('.tgz')}\n")
    (TARGET / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
