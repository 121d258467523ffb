"""Into the hosts and out again: what is written where, shown before it is done, and taken back to the byte."""

from __future__ import annotations
