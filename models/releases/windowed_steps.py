"""Decided steps of a deployment as accounts know them: sensors with windows brought to single steps.

What a window shows is accounted in each of its steps, before it is known whether its count will come. So it
is there in every step, whatever is announced, and with the one mechanism that the deployment has for it.
"""

from __future__ import annotations

from functools import lru_cache

from models.exceptions import ScheduleError
from models.mechanisms import Mechanism
from models.releases.fine_steps import ShownPlaces, in_step, revealed_in_steps, shown_places
from models.releases.schedule import RevealedAmount, RevealedMove, SensorRelease, StepSchedule
from models.releases.sensors import Sensor, SensorRegistry
from models.releases.window_release import MoveSensor, WindowRelease


def in_single_steps(step: StepSchedule, registry: SensorRegistry) -> StepSchedule:
    """A decided step as accounts know it.

    What counts presence in a step stays as it is. Of sensors with windows, this step's part of them is
    there, whether their counts are published or not: it must be accounted before that is known.
    :class:`ScheduleError` for a count that is not the one accounted.
    """
    if not registry.windowed:
        return step
    for release in step.releases:
        _check_is_accounted(step.step, release, registry)
    shown = (
        part
        for sensor in registry.windowed
        for part in _parts_at(step.step, SensorRelease(sensor, _mechanism_of(sensor, registry)))
    )
    plain = tuple(release for release in step.releases if release.sensor.window is None)
    return in_step(step.step, plain, tuple(shown), _revealed_at(step.step, registry))


def check_window_ends(sensor: Sensor, step: int) -> None:
    """:class:`ScheduleError` where the sensor has a window that does not end with the step."""
    window = sensor.window
    if window is None or window.ends_with(step):
        return
    first = 2 * window.steps - 1 if window.moves else window.steps - 1
    raise ScheduleError(
        f"a count of {sensor.name!r} must be announced and published with the last step of a window",
        f"step {step} of windows of {window.steps}",
        f"announce it with the steps {first}, {first + window.steps} and so on",
    )


def window_release(release: SensorRelease, last: int) -> WindowRelease:
    """What a sensor with a window publishes with the step ``last``."""
    sensor, window = release.sensor, release.sensor.window
    assert window is not None
    counting = (
        MoveSensor(sensor.name, window.moves) if window.moves else Sensor(sensor.name, sensor.locations)
    )
    return WindowRelease(
        counting, window.first_of(last), last, sensor.most_counts, release.mechanism, window.miscounts
    )


def _mechanism_of(sensor: Sensor, registry: SensorRegistry) -> Mechanism:
    """What all counts of the sensor are published with."""
    try:
        return registry.in_windows[sensor.name]
    except KeyError:
        raise ScheduleError(
            f"the mechanism of sensor {sensor.name!r} must be known before its steps are accounted",
            "none",
            "account sensors with windows in runs and plans with a fixed mechanism",
        ) from None


def _check_is_accounted(step: int, release: SensorRelease, registry: SensorRegistry) -> None:
    """:class:`ScheduleError` unless the release is of a whole window, with the mechanism accounted."""
    sensor, window = release.sensor, release.sensor.window
    if window is None or not release.mechanism.is_released:
        return
    check_window_ends(sensor, step)
    if release.mechanism != _mechanism_of(sensor, registry):
        raise ScheduleError(
            f"counts of {sensor.name!r} must be published with the mechanism that is accounted in every step",
            f"{release.mechanism.name} {dict(release.mechanism.parameters)} in step {step}",
            "leave the mechanism to the settings, for sensors with windows",
        )


def _revealed_at(step: int, registry: SensorRegistry) -> tuple[RevealedMove | RevealedAmount, ...]:
    """What comes out in this step."""
    found = []
    for sensor in registry.windowed:
        release = SensorRelease(sensor, _mechanism_of(sensor, registry))
        for offset, revealed in _revealed_in_window(release):
            if _is_in_window(release, step - offset):
                found.append(revealed)
    return tuple(found)


@lru_cache(256)
def _revealed_in_window(release: SensorRelease) -> tuple[tuple[int, RevealedMove | RevealedAmount], ...]:
    return revealed_in_steps(_any_window(release))


def _is_in_window(release: SensorRelease, first: int) -> bool:
    """Whether a window of the sensor begins with the step ``first``."""
    window = release.sensor.window
    assert window is not None
    return first % window.steps == 0 and window.ends_with(first + window.steps - 1)


def _any_window(release: SensorRelease) -> WindowRelease:
    """One that lies within the log, as if its count were published."""
    window = release.sensor.window
    assert window is not None
    return window_release(release, 2 * window.steps - 1)


def _parts_at(step: int, release: SensorRelease) -> list[ShownPlaces]:
    """This step's part of every window that reaches it: two of a sensor on moves, at a window's end."""
    return [part for part in parts_of(release) if _is_in_window(release, step - part.places.offset)]


@lru_cache(256)
def parts_of(release: SensorRelease) -> tuple[ShownPlaces, ...]:
    """What each window of a sensor shows, in steps counted from its first."""
    return shown_places(_any_window(release))
