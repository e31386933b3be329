"""The attacks there are, in the order of documents. A new one is a file beside these and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from accounting.attacks.constant_place import ConstantPlace
from accounting.attacks.either_guess import EitherGuess
from accounting.attacks.likeliest_path import LikeliestPath
from accounting.attacks.likeliest_places import LikeliestPlaces
from accounting.attacks.prior_path import PriorPath
from accounting.attacks.searched_guess import SearchedGuess
from accounting.attacks.targets import Attack

_ATTACKS: tuple[Attack, ...] = (
    LikeliestPath(),
    PriorPath(),
    ConstantPlace(),
    LikeliestPlaces(),
    EitherGuess(),
    SearchedGuess(),
)
ATTACKS: Mapping[str, Attack] = {attack.name: attack for attack in _ATTACKS}
