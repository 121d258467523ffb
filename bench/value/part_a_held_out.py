"""A with the sessions of teams that nothing was developed on."""

from __future__ import annotations

from functools import partial

from bench.value import part_a

run_part = partial(part_a.run_part, held_out=True)
report = part_a.report
