"""The release mechanisms by name. A new one is a file beside these and one line here."""

from __future__ import annotations

from collections.abc import Mapping

from models.exceptions import MechanismError
from models.mechanisms.base import NO_DESIGNS, Designs, Mechanism, MechanismType, suggest
from models.mechanisms.correlated import Correlated
from models.mechanisms.gaussian import Gaussian
from models.mechanisms.raw import Raw
from models.mechanisms.suppressed import Suppressed
from models.mechanisms.tiered import Tiered

_TYPES: tuple[MechanismType, ...] = (
    Raw,
    Gaussian,
    Suppressed,
    Tiered,
    Correlated,
)
MECHANISMS: Mapping[str, MechanismType] = {kind.name: kind for kind in _TYPES}


def parse(name: str, parameters: Mapping[str, object], designs: Designs = NO_DESIGNS) -> Mechanism:
    """The mechanism a message or schedule names, e.g. ``parse("gaussian", {"sigma": 1.0})``.

    ``designs`` are the noise designs that parameters may name by number.
    :class:`MechanismError` for an unknown name or parameter, with the closest known one, and for a value out
    of range.
    """
    if name not in MECHANISMS:
        raise MechanismError(
            f"a mechanism must be one of {', '.join(MECHANISMS)}", repr(name), suggest(name, MECHANISMS)
        )
    return MECHANISMS[name].from_parameters(parameters, designs)
