"""The steps that regions have sealed, in the place of a window of counts."""

from __future__ import annotations

from collections.abc import Sequence

from stream_app.kafka.regions.region_records import SealedStep
from stream_app.steps import ClosedCounts, StepWindow


class SealedWindow(StepWindow):
    """A step closes when every region has sealed it, or when its time is over: then without the others.

    ``left_out`` has the regions without which a step was closed, until somebody takes them.
    """

    def __init__(self, regions: Sequence[str], next_step: int) -> None:
        super().__init__(grace=0)
        self.next_step = next_step
        self.left_out: dict[int, tuple[str, ...]] = {}
        self._sealed: dict[str, dict[int, SealedStep]] = {region: {} for region in regions}

    def seal(self, region: str, sealed: SealedStep) -> None:
        """A region is done with a step. One that was decided without it changes nothing any more."""
        if sealed.step >= self.next_step:
            self._sealed[region][sealed.step] = sealed
            self.watermark = max(self.watermark, sealed.step)

    def is_due(self) -> bool:
        """Whether the next step may close."""
        step = self.next_step
        return step <= self.close_through or all(step in steps for steps in self._sealed.values())

    def close(self) -> ClosedCounts:
        """Take the next step off the window. Its counts are not here: each stands as 0 where there is one."""
        step = self.next_step
        sealed = {region: steps.pop(step, None) for region, steps in self._sealed.items()}
        late = tuple(region for region, found in sealed.items() if found is None)
        if late:
            self.left_out[step] = late
        self.next_step += 1
        parts = [found for found in sealed.values() if found is not None]
        sensors = tuple(name for part in parts for name in part.sensors)
        missing = {name for part in parts for name in part.missing}
        return ClosedCounts(step, sensors, {name: 0 for name in sensors if name not in missing}, {})
