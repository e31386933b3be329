"""What the adversary of the continuous accountant tries, and how much work goes into bounding its success."""

from __future__ import annotations

from dataclasses import dataclass, replace

from accounting.exceptions import SettingsError

HORIZON = 10
MISTAKES = 1
"""The defaults, everywhere. Where half of the steps may be wrong, habits alone decide; no release shows."""


@dataclass(frozen=True, slots=True)
class HorizonSettings:
    """What the adversary tries: the last ``horizon`` steps with at most ``mistakes`` of them wrong.

    ``thresholds`` are the levels of risk and of added risk that are counted; ``first_slot`` is the slot of
    step 0 in the priors' cycle; ``first_step`` the first step that will be applied.

    The cheap bound is computed for everybody. With ``sharpen``, those whose cheap bound reaches
    ``sharpen_above`` (None: the lowest threshold) are looked at again with the dear bounds of moment order
    ``order``. From that level on the counts are those of the dear bounds for everybody; who stays below keeps
    the cheap bound, which is valid and larger. The rule looks at one person at a time, so partitions agree.
    """

    horizon: int = HORIZON
    mistakes: int = MISTAKES
    thresholds: tuple[float, ...] = (0.01, 0.05, 0.1, 0.25, 0.5)
    first_slot: int = 0
    first_step: int = 0
    sharpen: bool = True
    sharpen_above: float | None = None
    order: int = 2

    def __post_init__(self) -> None:
        """:class:`~accounting.exceptions.SettingsError` names the setting that is out of range."""
        if self.horizon < 1:
            raise SettingsError("horizon must be at least 1 step", self.horizon, "set it to, say, 10")
        if not 0 <= self.mistakes < self.horizon:
            raise SettingsError(
                f"mistakes must lie in 0..{self.horizon - 1} (below the horizon)",
                self.mistakes,
                "lower mistakes or lengthen the horizon",
            )
        levels = list(self.thresholds)
        if any(not 0 < level <= 1 for level in levels) or levels != sorted(set(levels)):
            raise SettingsError(
                "thresholds must be increasing probabilities in (0, 1]", levels, "sort and correct them"
            )
        if self.order < 1:
            raise SettingsError("order must be at least 1", self.order, "use 2 for a good start")

    def starting_at(self, step: int) -> HorizonSettings:
        """The same for an accountant whose first step is another."""
        return replace(self, first_step=step)

    @property
    def sharpened_from(self) -> float:
        """The cheap risk from which the dear bounds are worth their price."""
        if self.sharpen_above is not None:
            return self.sharpen_above
        return self.thresholds[0] if self.thresholds else 0.0
