"""What one person adds to counts over windows of steps: laws of own counts, and what they reveal."""

from accounting.exposure.own_counts.carried_counts import WindowInformation, window_information
from accounting.exposure.own_counts.count_law import (
    OwnCount,
    own_count,
    own_count_law,
)
from accounting.exposure.own_counts.revealed_information import RevealedInformation

__all__ = [
    "OwnCount",
    "RevealedInformation",
    "WindowInformation",
    "own_count",
    "own_count_law",
    "window_information",
]
