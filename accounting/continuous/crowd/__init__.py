"""The running account against an adversary who does not know where the others are."""

from accounting.continuous.crowd.crowd_account import CrowdAccount
from accounting.continuous.crowd.levels_kernel import Levels

__all__ = ["CrowdAccount", "Levels"]
