"""The shell and the project that the surfaces' tests have."""

from tests.surfaces.conftest import project, shell

__all__ = ["project", "shell"]
