"""The benches are plain scripts below the repository's root; their tests import them from there."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
