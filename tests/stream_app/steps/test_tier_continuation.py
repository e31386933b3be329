"""A tier added later gets past values from the same chains: exact in law, drawn once, or refused."""

from __future__ import annotations

import math
import shutil
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from models.exceptions import MechanismError
from models.noise import TOTAL, chain_noise, continued_value, geometric_table
from models.noise.integer_chain import increment_table
from stream_app.exceptions import OutputError, RunChangedError, TierContinuationError
from tests.hex_keys import hex_key
from tests.stream_app.embedded.test_journal import Disk
from tests.stream_app.engine_support import (
    activation,
    json_lines,
    lines_of,
    messages_of_a_day,
    outputs_of,
    reading,
    run_on,
)
from tests.stream_app.steps.test_tiers import values

DAY = lines_of(messages_of_a_day(6, 5))
FIRST = {"public": 0.2, "partner": 1.0}
PRESS = FIRST | {"press": 0.5}


def tiers(levels: dict[str, float], **changed: object) -> dict[str, object]:
    release = {"mechanism": "tiered", "tiers": levels, "sensors": {"B": {"mechanism": "raw"}}}
    return {"sharpen": False, "attack_draws": 0, "release": release | changed}


def add(folder: Path, day: bytes, levels: dict[str, float], **changed: object) -> None:
    """Run again on a folder whose tiers change."""
    keys = {name: changed.pop(name) for name in ("noise_key_secret",) if name in changed}
    run_on(
        folder, [day], settings={**tiers(levels, **changed), **keys}, accept_changes=True, reason="a new tier"
    )


def tier_values(folder: Path, tier: str) -> dict[tuple[int, str], int | None]:
    found = values(folder, f"releases-{tier}.jsonl")
    return {key: entry.get("value") for key, entry in found.items() if entry["mechanism"] != "raw"}  # type: ignore[misc]


def weight(levels: list[float], noise: tuple[int, ...]) -> float:
    """Probability of noise at rising levels when all are fixed beforehand."""
    falling = [*zip(levels, noise, strict=True)][::-1]
    probability = geometric_table(falling[0][0]).units[abs(falling[0][1])] / TOTAL
    for (high, above), (low, below) in pairwise(falling):
        probability *= increment_table(low, high).units[abs(below - above)] / TOTAL
    return probability


def continued_law(known: dict[float, int], level: float, near: int) -> dict[int, float]:
    """The law of :func:`continued_value` around a value, from where on the 128-bit words it changes."""

    def first_word(value: int) -> int:
        """The smallest word that gives ``value`` or more, by bisection."""
        low, high = 0, TOTAL
        while low < high:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if continued_value(known, level, middle) >= value else (middle + 1, high)
            )
        return low

    edges = [first_word(value) for value in range(near - 3, near + 5)]
    return {near - 3 + i: (edges[i + 1] - edges[i]) / TOTAL for i in range(7)}


@pytest.mark.parametrize("late", [0.1, 0.2, 0.7, 1.2])
def test_values_continued_later_have_the_joint_law_of_all_tiers_drawn_together(late: float) -> None:
    """By enumeration of the words, for every gap between the tiers; the count plays no part."""
    count, kept = 50, [0.3, 1.5]
    for noise in product((-1, 0, 2), (-2, 0, 1)):
        known = dict(zip(kept, (count + each for each in noise), strict=True))
        law = continued_law(known, late, count + noise[1])
        for value, probability in law.items():
            ordered = sorted([*zip(kept, noise, strict=True), (late, value - count)])
            joint = weight([level for level, _ in ordered], tuple(each for _, each in ordered))
            assert weight(kept, noise) * probability == pytest.approx(joint, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("late", [0.1, 0.7])
def test_a_coalition_with_a_continued_tier_learns_what_its_best_member_does(late: float) -> None:
    """Likelihood ratio of all pooled values at neighbouring counts: at most e^1.5, and it is reached."""
    ratios = []
    for noise in product(range(-3, 4), repeat=2):
        known = dict(zip((0.3, 1.5), noise, strict=True))
        for probability in continued_law(known, late, noise[1]).values():
            here = weight([0.3, 1.5], noise) * probability
            shifted = weight([0.3, 1.5], (noise[0] - 1, noise[1] - 1)) * probability
            ratios.append(abs(math.log(here / shifted)))
    assert max(ratios) == pytest.approx(1.5, rel=1e-12)


def test_a_level_above_the_best_one_is_refused() -> None:
    with pytest.raises(MechanismError, match=r"must not be above .* got 2 above 1\.5"):
        continued_value({0.3: 4, 1.5: 3}, 2.0, 7)


@pytest.mark.slow
def test_a_tier_added_later_gets_past_values_of_its_own_level(tmp_path: Path) -> None:
    """Sampled through the whole engine: the noise between the tiers has the law of the chain."""
    steps = 500
    day = lines_of(
        message
        for step in range(steps)
        for message in (
            activation(step, "A", "C", "D"),
            *(reading(step, name, 1000) for name in ("A", "C", "D")),
        )
    )
    run_on(tmp_path, [day], settings=tiers(FIRST))
    before = outputs_of(tmp_path)
    add(tmp_path, day, PRESS)
    assert outputs_of(tmp_path) == before
    public, press, partner = (tier_values(tmp_path, tier) for tier in ("public", "press", "partner"))
    found = np.array([[series[key] for key in press] for series in (public, press, partner)]) - 1000
    together = chain_noise(
        (0.2, 0.5, 1.0), np.random.default_rng(4).integers(0, 2**64, (9000, 3, 2), np.uint64)
    )
    for low, high in ((1, 2), (0, 1)):
        ours, drawn = found[low] - found[high], together[:, low] - together[:, high]
        assert stats.ks_2samp(ours, drawn).pvalue > 1e-3
        assert abs(np.corrcoef(ours, found[high])[0, 1]) < 4 / math.sqrt(3 * steps)
    assert stats.ks_2samp(found[1], together[:, 1]).pvalue > 1e-3


def test_the_same_addition_gives_the_same_values_and_a_lost_file_comes_back(tmp_path: Path) -> None:
    """Keyed: nothing is drawn again, and a tier added after it stays on the same chain."""
    for name in ("one", "two"):
        run_on(tmp_path / name, [DAY], settings=tiers(FIRST))
        add(tmp_path / name, DAY, PRESS)
    assert tier_values(tmp_path / "one", "press") == tier_values(tmp_path / "two", "press")
    assert None not in tier_values(tmp_path / "one", "press").values()
    add(tmp_path / "one", DAY, PRESS | {"school": 0.3})
    whole = {path.name: path.read_bytes() for path in (tmp_path / "one").glob("*-*.jsonl")}
    assert len(whole) == 6  # four tiers, two of them continued
    (tmp_path / "one" / "releases-press.jsonl").unlink()
    add(tmp_path / "one", DAY, PRESS | {"school": 0.3})
    assert {path.name: path.read_bytes() for path in (tmp_path / "one").glob("*-*.jsonl")} == whole


@pytest.mark.slow
def test_a_crash_while_a_tier_is_added_leads_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = PRESS | {"school": 0.3}
    begun = tmp_path / "begun"
    run_on(begun, [DAY], settings=tiers(FIRST))
    whole = shutil.copytree(begun, tmp_path / "whole")
    disk = Disk(monkeypatch)
    add(whole, DAY, more)
    expected = {path.name: path.read_bytes() for path in whole.glob("*.json*")}
    crashes = range(1, disk.operations)
    for folder in disk.mended(crashes, lambda folder: add(folder, DAY, more), tmp_path, begun):
        found = {path.name: path.read_bytes() for path in folder.glob("*.json*")}
        assert found == expected, folder


def test_a_better_tier_than_any_before_begins_with_new_readings(tmp_path: Path) -> None:
    """Its noise would depend on the count, which is not kept, and it would cost more than was accounted."""
    run_on(tmp_path, [DAY], settings=tiers(FIRST))
    later = lines_of([activation(6, "A"), reading(6, "A", 40)])
    add(tmp_path, DAY + later, FIRST | {"research": 2.0})
    found = tier_values(tmp_path, "research")
    assert found.pop((6, "A")) is not None
    assert found
    assert set(found.values()) == {None}
    with pytest.raises(RunChangedError, match="release"):
        run_on(tmp_path, [DAY], settings=tiers(PRESS))


def test_past_values_need_the_key_of_their_steps(tmp_path: Path) -> None:
    """After a change of keys the tier can begin with the key in use; the older steps tell it nothing."""
    run_on(tmp_path, [DAY], settings=tiers(FIRST))
    later = lines_of([activation(6, "A"), reading(6, "A", 40)])
    ratcheted = {"noise_key_secret": "epoch 1\n" + hex_key("33")}
    add(tmp_path, DAY + later, FIRST, **ratcheted)
    with pytest.raises(TierContinuationError, match=r"step 0.*new_tiers_from"):
        add(tmp_path, DAY + later, PRESS, **ratcheted)
    with pytest.raises(TierContinuationError, match="step 6"):
        add(tmp_path, DAY + later, PRESS, new_tiers_from=6)
    add(tmp_path, DAY + later, PRESS, new_tiers_from=6, **ratcheted)
    found = tier_values(tmp_path, "press")
    assert {step for (step, _), value in found.items() if value is not None} == {6}


@pytest.mark.slow
def test_clamped_values_are_continued_from_what_was_drawn(tmp_path: Path) -> None:
    """A 0 that was told hides where the chain is; the owner's log keeps it, a tier's file does not."""
    day = lines_of(
        message for step in range(40) for message in (activation(step, "A"), reading(step, "A", 0))
    )
    free, clamped = tmp_path / "free", tmp_path / "clamped"
    run_on(free, [day], settings=tiers(FIRST))
    run_on(clamped, [day], settings=tiers(FIRST, clamp_negative=True))
    add(free, day, PRESS)
    add(clamped, day, PRESS, clamp_negative=True)
    for tier in PRESS:
        expected = {key: max(value or 0, 0) for key, value in tier_values(free, tier).items()}
        assert tier_values(clamped, tier) == expected
        assert b"drawn" not in (clamped / f"releases-{tier}.jsonl").read_bytes()
    assert min(value or 0 for value in tier_values(free, "press").values()) < 0


def test_continued_values_are_the_owners_and_must_not_get_lost(tmp_path: Path) -> None:
    run_on(tmp_path, [DAY], settings=tiers(FIRST))
    add(tmp_path, DAY, PRESS)
    kept = tmp_path / "continued-press.jsonl"
    assert kept.stat().st_mode & 0o077 == 0
    steps = [line["step"] for line in json_lines(kept)]
    assert steps == sorted(steps)
    kept.write_bytes(kept.read_bytes()[:-9])
    (tmp_path / "releases-press.jsonl").unlink()
    with pytest.raises(OutputError, match="restore the file"):
        add(tmp_path, DAY, PRESS)
