"""A repository with memories about its code, and changes of it that are checked."""

from __future__ import annotations

from typing import Any

from tests.services.lines.history import History

PRICING = '''"""Prices."""

RATE = 3


def total_price(items):
    subtotal = sum(item.price for item in items)
    return round(subtotal * RATE)


def format_price(cents):
    return f"{cents / 100:.2f} EUR"
'''
WORKFLOW = "jobs:\n  test:\n    steps:\n      - name: npm tests\n        run: pnpm install\n      - run: |\n          pnpm test\n"


class Changed(History):
    """A history with prices and a workflow; `check` stages everything and returns what is found."""

    def begin(self) -> Changed:
        self.write("src/pricing.py", PRICING)
        self.write(".github/workflows/ci.yml", WORKFLOW)
        self.commit("prices")
        return self

    def add(self, text: str, kind: str = "decision", **more: Any) -> str:
        return str(self.call("memory.add", {"text": text, "type": kind, **more})["memory"])

    def guard(self, action: str = "block", **conditions: Any) -> str:
        """Add a guard that is on."""
        given = {"message": "not like this", "action": action, **conditions}
        identity = str(self.call("guard.add", given)["guard"]["id"])
        self.call("guard.enable", {"id": identity})
        return identity

    def check(self, **request: Any) -> dict[str, Any]:
        if not request:
            self.git("add", "-A")
        return self.call("code.check", request)

    def found(self, **request: Any) -> list[tuple[str, str, int]]:
        """Return kind, what the change does, and line of each finding."""
        return [(each["kind"], each["why"], each["line"]) for each in self.check(**request)["findings"]]
