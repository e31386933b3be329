"""Secret keys: noise forward only and the same for the same reading, pseudonyms stable and unlinkable."""

from __future__ import annotations

import hashlib
import hmac
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from models.exceptions import NoiseKeyError, PseudonymKeyError, TallyguardError
from models.keys import NoiseKey, Pseudonymiser, SnapshotKey, batch_message, reading_message, text_bytes
from tests.hex_keys import hex_key

# The noise key: secret, forward only, and the same bits for the same reading alone.

SECRET = bytes(range(32))
READING = {
    "deployment": "city",
    "sensor_id": "s3",
    "start_seconds": 1_700_000_000,
    "end_seconds": 1_700_003_600,
    "mechanism": "gaussian",
    "parameters": {"sigma": 1.0},
    "count": 41,
    "epoch": 0,
}
CHANGES = {
    "deployment": "city2",
    "sensor_id": "s4",
    "start_seconds": 1_699_999_999,
    "end_seconds": 1_700_003_601,
    "mechanism": "gaussian2",
    "parameters": {"sigma": 1.0000000000000002},
    "count": 42,
    "epoch": 1,
}


def message(**changes: object) -> bytes:
    """The whole message of a reading."""
    fields: dict[str, Any] = {**READING, **changes}
    sensor, count = fields.pop("sensor_id"), fields.pop("count")
    return reading_message(batch_message(**fields), sensor, count)


def test_the_same_reading_has_the_same_bits_whenever_and_with_whatever_it_is_asked() -> None:
    """A replay, in another batch and by another process's copy of the key, gives the same words."""
    key, other = NoiseKey(bytes.fromhex(hex_key("own"))), NoiseKey.parse(hex_key("own"))
    first = key.uniform_words([message(), message(count=1)])
    again = other.uniform_words([message(count=2), message()])
    assert np.array_equal(first[0], again[1])
    assert first.shape == (2, 2)
    assert key.uniform_words([]).shape == (0, 2)


@pytest.mark.parametrize("fact", READING)
def test_any_other_reading_has_other_bits(fact: str) -> None:
    """Another deployment, sensor, interval, mechanism, parameter, count or epoch: independent words."""
    words = NoiseKey(SECRET).uniform_words([message(), message(**{fact: CHANGES[fact]})])
    assert words[0, 0] != words[1, 0]
    assert words[0, 1] != words[1, 1]


def test_words_are_the_first_half_of_hmac_sha256() -> None:
    """High word first, straight from the standard library's one-shot function."""
    digest = hmac.digest(SECRET, message(), hashlib.sha256)
    words = NoiseKey(SECRET).uniform_words([message()])
    assert int(words[0, 0]) << 64 | int(words[0, 1]) == int.from_bytes(digest[:16], "big")


@pytest.mark.slow
@given(
    st.tuples(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4)),
    st.tuples(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4)),
)
@settings(max_examples=300)
def test_no_two_readings_share_a_message(left: tuple[str, str, str], right: tuple[str, str, str]) -> None:
    """Moving letters between neighbouring fields changes the bytes: lengths are part of them."""

    def of(names: tuple[str, str, str]) -> bytes:
        return message(deployment=names[0], sensor_id=names[1], mechanism=names[2])

    assert (of(left) == of(right)) == (left == right)
    for cut in range(len(left[0]) + 1):
        moved = (left[0][:cut], left[0][cut:] + left[1], left[2])
        assert (of(moved) == of(left)) == (moved == left)


def test_the_order_of_parameters_does_not_matter() -> None:
    one = message(parameters={"sigma": 1.0, "tier": 2.0})
    assert one == message(parameters={"tier": 2.0, "sigma": 1.0})
    assert one != message(parameters={"sigma": 2.0, "tier": 1.0})


def test_words_look_uniform() -> None:
    """Chi-square on the top and on the lowest byte of 50 000 consecutive counts."""
    words = NoiseKey(SECRET).uniform_words([message(count=count) for count in range(50_000)])
    for byte in (words[:, 0] >> np.uint64(56), words[:, 1] & np.uint64(255)):
        assert stats.chisquare(np.bincount(byte.astype(np.int64), minlength=256)).pvalue > 1e-3


def test_epochs_go_forward_only() -> None:
    """Epoch 3 is reached from 0 or from 2 alike; nothing leads back."""
    key = NoiseKey(SECRET)
    third = key.at_epoch(3)
    assert third.epoch == 3
    assert third.fingerprint() == key.at_epoch(2).at_epoch(3).fingerprint()
    assert len({key.at_epoch(epoch).fingerprint() for epoch in range(5)}) == 5
    assert not np.array_equal(third.uniform_words([message()]), key.uniform_words([message()]))
    with pytest.raises(NoiseKeyError, match="must not be before"):
        third.at_epoch(2)


def test_a_new_epoch_replaces_the_old_key_in_its_file(tmp_path: Path) -> None:
    """The file holds the later key alone, still private; the old one no longer works."""
    path = tmp_path / "noise.key"
    first = NoiseKey.create(path)
    old_text = path.read_text()
    expected = first.at_epoch(2).fingerprint()
    second = first.advance_file(path, 2)
    assert NoiseKey.load(path).fingerprint() == second.fingerprint() == expected
    assert NoiseKey.load(path).epoch == 2
    assert old_text.strip() not in path.read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["noise.key"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(NoiseKeyError, match="erased"):
        first.uniform_words([message()])


def test_a_new_key_is_private_random_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "noise.key"
    key = NoiseKey.create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert NoiseKey.load(path).fingerprint() == key.fingerprint()
    assert NoiseKey.generate().fingerprint() != NoiseKey.generate().fingerprint()
    with pytest.raises(NoiseKeyError, match="must not exist yet"):
        NoiseKey.create(path)
    assert NoiseKey.load(path).fingerprint() == key.fingerprint()


def test_the_secret_shows_in_nothing_that_is_printed() -> None:
    """repr, str, format and the fingerprint hide it."""
    key = NoiseKey(SECRET, epoch=4)
    for shown in (repr(key), str(key), f"{key}", key.fingerprint()):
        assert SECRET.hex()[:16] not in shown
    assert repr(key) == "NoiseKey(epoch=4, secret=***)"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "at least 32 bytes"),
        ("ab" * 31, "at least 32 bytes"),
        ("secret" * 20, "hexadecimal"),
        ("epoch one\n" + "ab" * 32, "must be a number"),
        ("epoch -1\n" + "ab" * 32, "must be a number"),
        ("epoch 1", "at least 32 bytes"),
    ],
)
def test_a_text_that_is_no_key_is_refused_without_being_shown(text: str, problem: str) -> None:
    with pytest.raises(NoiseKeyError, match=problem) as refused:
        NoiseKey.parse(text)
    assert "abab" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoiseKeyError, match=r"missing\.key must be readable"):
        NoiseKey.load(tmp_path / "missing.key")
    (tmp_path / "binary.key").write_bytes(bytes(range(128, 192)))
    with pytest.raises(NoiseKeyError, match=r"binary\.key must be hexadecimal"):
        NoiseKey.load(tmp_path / "binary.key")
    with pytest.raises(NoiseKeyError, match="must be writable"):
        NoiseKey.create(tmp_path / "no-folder" / "noise.key")


@pytest.mark.parametrize("text", [f"epoch 3 {'ab' * 32}", f"epoch {'7' * 64}", f"epoch {'ab' * 32}\n"])
def test_a_key_in_the_line_of_its_epoch_is_not_told(text: str) -> None:
    """The line break that was lost must not put the secret into an error and a log."""
    with pytest.raises(NoiseKeyError, match="in a line of its own") as raised:
        NoiseKey.parse(text)
    assert not any(part in str(raised.value) for part in ("abab", "7777"))


@pytest.mark.parametrize(
    "text",
    [
        "00" * 32,
        "ff" * 40,
        "ab" * 32,
        "deadbeef" * 8,
        SECRET.hex(),
        SECRET[::-1].hex(),
        (b"changeme" * 4).hex(),
    ],
)
@pytest.mark.parametrize("kind", [NoiseKey, Pseudonymiser, SnapshotKey])
def test_a_key_that_somebody_thought_of_is_refused_and_not_shown(kind: Any, text: str) -> None:
    with pytest.raises(TallyguardError, match="must be random") as raised:
        kind.parse(text)
    assert text[:16] not in str(raised.value)
    with pytest.raises(TallyguardError, match="hexadecimal"):
        kind.parse("changeme" * 8)


def test_no_random_key_is_taken_for_one_that_was_thought_of() -> None:
    for number in range(3_000):
        NoiseKey.parse(hex_key(str(number)))


def test_a_person_has_one_pseudonym_per_key() -> None:
    one, other = Pseudonymiser(bytes.fromhex(hex_key("own"))), Pseudonymiser(SECRET[::-1])
    assert one.pseudonym("p1") == Pseudonymiser.parse(hex_key("own")).pseudonym("p1")
    assert one.pseudonym("p1") != other.pseudonym("p1")
    assert one.fingerprint() != other.fingerprint()


@pytest.mark.parametrize("size", [32, 63, 64, 65, 200])
def test_a_pseudonym_is_the_hmac_of_the_id(size: int) -> None:
    """The standard library's, also for keys that are longer than a block of the hash."""
    secret, people = bytes(range(1, size + 1)), ["", "p1", "Zoë", "x" * 300]
    for person, name in zip(people, Pseudonymiser(secret).pseudonyms(people), strict=True):
        message = text_bytes("tallyguard pseudonym 1") + text_bytes(person)
        assert name == hmac.digest(secret, message, "sha256").hex()[:32]


def test_people_do_not_share_pseudonyms_and_ids_do_not_show() -> None:
    """Ten thousand people, ten thousand names of 32 digits without their ids in them."""
    people = [f"person-{index}" for index in range(10_000)]
    names = Pseudonymiser(SECRET).pseudonyms(people)
    assert len(set(names)) == len(people)
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in names)
    assert not any("person" in name for name in names)


def test_the_key_is_kept_private_and_masked(tmp_path: Path) -> None:
    path = tmp_path / "pseudonym.key"
    made = Pseudonymiser.create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Pseudonymiser.load(path).pseudonym("p1") == made.pseudonym("p1")
    assert path.read_text().strip()[:16] not in f"{made!r} {made} {made.fingerprint()}"
    with pytest.raises(PseudonymKeyError, match="must not exist yet"):
        Pseudonymiser.create(path)


def test_a_key_that_is_too_short_is_refused() -> None:
    with pytest.raises(PseudonymKeyError, match="at least 32 bytes, got 16"):
        Pseudonymiser(bytes(16))
