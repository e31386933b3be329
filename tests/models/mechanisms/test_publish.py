"""A step's counts become values in one batch: repeatable, one value a reading, no low bits to attack."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.exceptions import MechanismError, SensorError
from models.keys import NoiseKey
from models.mechanisms import Gaussian, Mechanism, Raw, Suppressed
from models.noise import discrete_gaussian_table
from models.releases import CountToPublish, StepInterval, publish_step
from tests.models.noise.test_discrete_gaussian import goodness_of_fit

KEY = NoiseKey(bytes(range(32)))
HOUR = StepInterval(1_700_000_000, 1_700_003_600)
NEXT_HOUR = StepInterval(1_700_003_600, 1_700_007_200)
MECHANISMS = st.sampled_from([Raw(), Gaussian(1.0), Gaussian(3.0), Suppressed()])


def readings(mechanism: Mechanism, counts: list[int]) -> list[CountToPublish]:
    return [CountToPublish(f"s{index}", mechanism, count) for index, count in enumerate(counts)]


def published(
    items: list[CountToPublish], interval: StepInterval = HOUR, **options: bool
) -> list[int | None]:
    return publish_step(KEY, "city", interval, items, **options)


def test_raw_is_the_count_and_nothing_is_nothing() -> None:
    """Raw values as counted; None for a suppressed sensor and for a count that is missing, never zero."""
    items = [
        CountToPublish("a", Raw(), 41),
        CountToPublish("b", Suppressed(), 7),
        CountToPublish("c", Gaussian(1.0), None),
        CountToPublish("d", Raw(), None),
    ]
    assert published(items) == [41, None, None, None]
    assert published([]) == []


@given(st.lists(st.tuples(MECHANISMS, st.none() | st.integers(0, 10**6)), max_size=12), st.randoms())
@settings(max_examples=60)
def test_a_value_does_not_depend_on_what_else_is_published(batch: list[tuple], random: object) -> None:
    """Any order, any company, any number of replays: the same sensor's reading has the same value."""
    items = [CountToPublish(f"s{index}", *pair) for index, pair in enumerate(batch)]
    values = dict(zip((item.sensor_id for item in items), published(items), strict=True))
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert dict(zip((item.sensor_id for item in shuffled), published(shuffled), strict=True)) == values
    for item in items:
        assert published([item]) == [values[item.sensor_id]]


def test_noise_is_fresh_for_every_count_interval_sensor_deployment_scale_and_epoch() -> None:
    """Five hundred readings that differ in one fact have noise without correlation to the first ones'."""
    scale, size = 50.0, 500
    items = readings(Gaussian(scale), [1000] * size)
    base = np.array(published(items)) - 1000.0
    renamed = [CountToPublish(f"t{index}", Gaussian(scale), 1000) for index in range(size)]
    others = {
        "count": np.array(published(readings(Gaussian(scale), [1001] * size))) - 1001.0,
        "interval": np.array(published(items, NEXT_HOUR)) - 1000.0,
        "sensor": np.array(published(renamed)) - 1000.0,
        "deployment": np.array(publish_step(KEY, "town", HOUR, items)) - 1000.0,
        "scale": np.array(published(readings(Gaussian(scale + 0.5), [1000] * size))) - 1000.0,
        "epoch": np.array(publish_step(KEY.at_epoch(1), "city", HOUR, items)) - 1000.0,
    }
    for fact, noise in others.items():
        correlation = float(np.corrcoef(base, noise)[0, 1])
        assert abs(correlation) < 4.0 / math.sqrt(size), fact
        assert np.mean(base == noise) < 0.05, fact


def test_keyed_noise_fits_the_exact_probabilities() -> None:
    """Pearson's test on the noise of 40 steps of 1 000 sensors, as published."""
    noise = []
    for step in range(40):
        interval = StepInterval(step * 60, step * 60 + 60)
        counts = [(sensor * 7 + step) % 90 for sensor in range(1000)]
        values = published(readings(Gaussian(2.0), counts), interval)
        noise.append(np.array(values, dtype=np.int64) - np.array(counts))
    assert goodness_of_fit(np.concatenate(noise), 2.0) > 1e-3


def test_averaging_replays_removes_no_noise() -> None:
    """A hundred deliveries of one reading have one value between them."""
    item = CountToPublish("s3", Gaussian(10.0), 500)
    assert len({published([item])[0] for _ in range(100)}) == 1


def test_clamping_changes_the_negative_published_values_and_no_other() -> None:
    """Post-processing: max(0, value), the noise itself being the same; left alone by default."""
    items = readings(Gaussian(5.0), [0, 1, 2, 3] * 50)
    free = published(items)
    assert min(value for value in free if value is not None) < 0
    assert published(items, clamp_negative=True) == [max(value, 0) for value in free if value is not None]


@pytest.mark.parametrize("count", [-1, 2**53 + 1, 1.0, True, "4"])
def test_what_is_not_a_count_stops_the_step(count: object) -> None:
    items = [CountToPublish("a", Raw(), 1), CountToPublish("b", Raw(), count)]  # type: ignore[arg-type]
    with pytest.raises(MechanismError, match="count of sensor 'b'"):
        published(items)


def test_a_sensor_is_released_once_a_step() -> None:
    """Two values of one interval would average: refused before anything is drawn."""
    items = [CountToPublish("a", Gaussian(1.0), 5), CountToPublish("a", Gaussian(2.0), 5)]
    with pytest.raises(SensorError, match="once a step, got 'a' 2 times"):
        published(items)
    with pytest.raises(MechanismError, match="end after it starts"):
        publish_step(KEY, "city", StepInterval(60, 60), [])


# Mironov, "On Significance of the Least Significant Bits for Differential Privacy" (2012)

SCALE = 10.0
DRAWS = 4_000


def naive_laplace(count: int, bits: int) -> float:
    """The textbook release in doubles: the inverse distribution at a uniform of 53 bits, plus the count."""
    centred = bits * 2.0**-53 - 0.5
    return count - math.copysign(SCALE, centred) * math.log(1.0 - 2.0 * abs(centred))


def could_be(count: int, value: float) -> bool:
    """Whether any 53-bit uniform makes the naive release of ``count`` exactly ``value``."""
    tail = round(math.exp(-abs(value - count) / SCALE) * 2.0**52)
    nearby = range(max(1, tail - 30), min(2**52, tail + 30))
    return any(value in (naive_laplace(count, k), naive_laplace(count, 2**53 - k)) for k in nearby)


def test_the_low_bits_give_a_naive_laplace_release_away() -> None:
    """The attack works where it should: certain, and right, for four in five releases of doubles."""
    random = np.random.default_rng(9)
    certain = 0
    for draw in range(DRAWS):
        truth = draw % 2
        value = naive_laplace(truth, int(random.integers(1, 2**53)))
        assert could_be(truth, value)
        certain += not could_be(1 - truth, value)
    assert 0.75 * DRAWS < certain < 0.85 * DRAWS


@pytest.mark.parametrize("sigma", [1.0, 10.0])
def test_the_low_bits_of_our_releases_tell_nothing(sigma: float) -> None:
    """Values are integers, and all of them are possible for 0 and for 1, but for mass below 2^-100."""
    steps = [StepInterval(60 * step, 60 * step + 60) for step in range(200)]
    seen = [value for step in steps for value in published(readings(Gaussian(sigma), [0, 1] * 10), step)]
    assert all(type(value) is int for value in seen)
    table = discrete_gaussian_table(sigma)
    support = [set(range(count - table.last, count + table.last + 1)) for count in (0, 1)]
    assert set(seen) <= support[0] & support[1]
    only_one = support[0] ^ support[1]
    assert only_one == {-table.last, table.last + 1}
    assert table.units[table.last] / 2.0**128 < 2.0**-100


def test_noise_for_ten_thousand_sensors_takes_a_fraction_of_a_second() -> None:
    """One step, one batch: about 20 ms of processor time; the test allows twenty times as much."""
    items = readings(Gaussian(1.0), list(range(10_000)))
    published(items[:10])
    start = time.process_time()
    values = published(items)
    assert time.process_time() - start < 0.4
    assert len(values) == 10_000
