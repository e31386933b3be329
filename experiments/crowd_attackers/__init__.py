"""Attackers who see counts, know habits, and do not know where the others are; held to the crowd's ceiling.

A new one is a file beside these and one line in :data:`CROWD_ATTACKS`.
"""

from collections.abc import Mapping

from experiments.crowd_attackers.collective_filter import Collective, CollectiveFilter
from experiments.crowd_attackers.drawn_traces import draw_days, draw_traces
from experiments.crowd_attackers.membership import (
    Membership,
    MembershipTest,
    area_ceiling,
    area_under_curve,
)
from experiments.crowd_attackers.scene import CrowdAttack, Moments, Scene, Watched
from experiments.crowd_attackers.trajectory_recovery import (
    POOL,
    Recovery,
    TrajectoryRecovery,
    cheapest_flow,
    likeliest_path,
)

_ATTACKS: tuple[CrowdAttack, ...] = (Collective(), TrajectoryRecovery(), Membership())
CROWD_ATTACKS: Mapping[str, CrowdAttack] = {attack.name: attack for attack in _ATTACKS}

__all__ = [
    "CROWD_ATTACKS",
    "POOL",
    "CollectiveFilter",
    "CrowdAttack",
    "MembershipTest",
    "Moments",
    "Recovery",
    "Scene",
    "Watched",
    "area_ceiling",
    "area_under_curve",
    "cheapest_flow",
    "draw_days",
    "draw_traces",
    "likeliest_path",
]
