"""An agent's shell is told from a person's by the variables that hosts set."""

from __future__ import annotations

import pytest

from lorelog.core.caller import detect_agent


@pytest.mark.parametrize(
    ("variables", "agent"),
    [
        ("OMPCODE CLAUDECODE", "Oh My Pi"),
        ("KILO OPENCODE KILO_PID", "Kilo Code"),
        ("PI_CODING_AGENT AI_AGENT", "Pi"),
        ("FACTORY_EXEC_TARGET_AUTONOMY", "Factory Droid"),
        ("CLINE_CONNECTOR_CLI_LAUNCH", "Cline"),
        ("PI_CODING_AGENT_DIR FACTORY_API_KEY CLINE_DIR", ""),
    ],
)
def test_agents_are_named_by_what_their_shells_set(variables: str, agent: str) -> None:
    """A shell with the variables that were seen in a host's shell is that host's agent; what people set makes none."""
    assert detect_agent(dict.fromkeys(variables.split(), "1")) == agent
