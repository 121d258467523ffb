"""B2 on the issues of Full that are not in Lite, which nothing was developed on."""

from __future__ import annotations

from functools import partial

from bench.value import part_b2

run_part = partial(part_b2.run_part, held_out=True)
report = part_b2.report
