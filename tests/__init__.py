"""What the project promises, tested; folders as in the packages."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
