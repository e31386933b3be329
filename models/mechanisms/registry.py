"""The release mechanisms by name. A new one is a file beside these and one line here, or registered."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isclass
from typing import cast

from models.exceptions import MechanismError
from models.mechanisms.base import NO_DESIGNS, Designs, Mechanism, MechanismType, suggest
from models.mechanisms.correlated import Correlated
from models.mechanisms.gaussian import Gaussian
from models.mechanisms.raw import Raw
from models.mechanisms.suppressed import Suppressed
from models.mechanisms.tiered import Tiered
from models.registry import Registry

_TYPES: tuple[MechanismType, ...] = (Raw, Gaussian, Suppressed, Tiered, Correlated)


def _mechanism(name: str, kind: object) -> MechanismType:
    """A class of mechanisms; :class:`MechanismError` for anything else, and for another name than its own."""
    missing = [each for each in ("name", "parameter_names", "from_parameters") if not hasattr(kind, each)]
    if not isclass(kind) or missing:
        got = f"one without {', '.join(missing)}" if isclass(kind) else f"a {type(kind).__name__}"
        raise MechanismError(
            "a mechanism must be a class with name, parameter_names and from_parameters",
            got,
            "see tallyguard.Gaussian",
        )
    found = cast(MechanismType, kind)
    if found.name != name:
        raise MechanismError(
            "a mechanism must be registered under its name", f"{name!r} for {found.name!r}", "use one of them"
        )
    return found


MECHANISMS: Registry[MechanismType] = Registry("mechanism", {kind.name: kind for kind in _TYPES}, _mechanism)
"""Ours by name, and those of users and other packages, each checked when it enters a schedule."""


def register_mechanism(kind: type) -> None:
    """Make a class of mechanisms known by its ``name``: in schedules, settings, messages and files.

    A package offers one as an entry point of the group ``tallyguard.mechanisms``. Each of its mechanisms is
    checked when it enters a schedule (:func:`~models.mechanisms.check_mechanism`).
    :class:`~models.exceptions.TallyguardError` for anything that is no such class, and for a name of ours.
    """
    name = getattr(kind, "name", "")
    MECHANISMS.register(name, _mechanism(name, kind))


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
