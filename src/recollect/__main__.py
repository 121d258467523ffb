"""`python -m recollect`."""

from recollect.surfaces.cli.main import entry

if __name__ == "__main__":
    entry()
