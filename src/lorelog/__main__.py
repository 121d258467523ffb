"""`python -m lorelog`."""

from lorelog.surfaces.cli.main import entry

if __name__ == "__main__":
    entry()
