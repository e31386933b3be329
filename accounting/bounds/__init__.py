"""Upper bounds on the success of any adversary, one file each; the certified bound is their minimum."""

from accounting.bounds.certified import Bounds, baseline_bound, certify, compute_bounds

__all__ = ["Bounds", "baseline_bound", "certify", "compute_bounds"]
