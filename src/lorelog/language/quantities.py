"""Numbers with units, in a form that can be compared: 60 s equals 1 min, 1,000 equals 1000, and 60 ms is not 60 s."""

from __future__ import annotations

UNITS = {
    name: (unit, factor)
    for unit, factor, names in (
        ("s", 1e-9, "ns nanosecond nanoseconds"),
        ("s", 1e-6, "us µs microsecond microseconds"),
        ("s", 1e-3, "ms millisecond milliseconds"),
        ("s", 1.0, "s sec secs second seconds"),
        ("s", 60.0, "min mins minute minutes"),
        ("s", 3600.0, "h hr hrs hour hours"),
        ("s", 86400.0, "d day days"),
        ("s", 604800.0, "week weeks"),
        ("month", 1.0, "month months"),
        ("month", 12.0, "year years"),
        ("byte", 1.0, "b byte bytes"),
        ("byte", 1e3, "kb"),
        ("byte", 1024.0, "kib ki"),
        ("byte", 1e6, "mb"),
        ("byte", 1048576.0, "mib mi"),
        ("byte", 1e9, "gb"),
        ("byte", 1073741824.0, "gib gi"),
        ("byte", 1e12, "tb"),
        ("%", 1.0, "% percent"),
    )
    for name in names.split()
}
UNIT = rf"(?:\s?-?(?:{'|'.join(sorted(UNITS, key=len, reverse=True))})(?!\w))"
"""Source of a pattern for a unit after a number."""
NUMBER = r"\d+(?:[.,_]\d+)*"


def parse_quantity(number: str, unit: str | None) -> tuple[str, str] | None:
    """Return the kind of a quantity (a unit, or `number`) and its comparable value; None if it is not one."""
    plain = number.replace("_", "")
    groups = plain.split(",")
    if len(groups) > 1:
        if not all(len(group) == 3 for group in groups[1:]):
            return None
        plain = "".join(groups)
    if unit is None:
        return "number", plain.lstrip("0") or "0"  # perhaps a version: 3.10 is not 3.1
    name, factor = UNITS[unit.strip(" -").lower()]
    return (name, f"{float(plain) * factor:.9g}") if plain.count(".") <= 1 else None
