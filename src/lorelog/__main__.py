"""`python -m lorelog`."""

from lorelog.surfaces.cli import entry

if __name__ == "__main__":
    entry()
