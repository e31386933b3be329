"""Designs of correlated noise, which messages and schedules name by their number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from models.exceptions import MechanismError
from models.noise import CorrelatedNoise


@dataclass(frozen=True, slots=True)
class Designs:
    """The noise designs of a deployment.

    A design is too large for a message. Its number is made of the design itself, so more designs never change
    what a message means.
    """

    noises: tuple[CorrelatedNoise, ...] = ()

    @classmethod
    def load(cls, paths: Iterable[Path]) -> Designs:
        """The designs whose covariances are in these files; :class:`MechanismError` for one that has none."""
        return cls(tuple(map(CorrelatedNoise.load, paths)))

    def with_designs(self, more: Designs) -> Designs:
        """These and more."""
        return Designs(self.noises + more.noises)

    def find(self, number: int) -> CorrelatedNoise:
        """The design of a number; :class:`MechanismError` where it is none of these."""
        for noise in self.noises:
            if noise.design == number:
                return noise
        raise MechanismError(
            "the number of a noise design must be that of one of the deployment's",
            number,
            "name the file of its covariance in the settings (release.covariance) or with --covariance",
        )


NO_DESIGNS = Designs()
