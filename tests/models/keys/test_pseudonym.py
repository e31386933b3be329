"""Pseudonyms: stable for a key, unlinkable without it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from models.exceptions import PseudonymKeyError
from models.keys import Pseudonymiser
from tests.hex_keys import hex_key

SECRET = bytes(range(32))


def test_a_person_has_one_pseudonym_per_key() -> None:
    one, other = Pseudonymiser(bytes.fromhex(hex_key("own"))), Pseudonymiser(SECRET[::-1])
    assert one.pseudonym("p1") == Pseudonymiser.parse(hex_key("own")).pseudonym("p1")
    assert one.pseudonym("p1") != other.pseudonym("p1")
    assert one.fingerprint() != other.fingerprint()


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
