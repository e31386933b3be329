"""Release mechanisms: one file each, the same few verbs (``base.Mechanism``).

A new mechanism is a file beside these, one line in ``registry.py`` and one in the conformance suite.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from models.mechanisms.base import (
    NO_DESIGNS,
    Composite,
    Designs,
    DrawnPerWindow,
    Mechanism,
    NoiseFamily,
    NoiseLaw,
    NoiseWindow,
    PublishesTiers,
    Tabulated,
    computed_once,
    errors_of_recipients,
    public_error,
    truncated_mass,
)
from models.mechanisms.bounded import BoundedNoise
from models.mechanisms.correlated import Correlated, CorrelatedSteps
from models.mechanisms.gaussian import Gaussian
from models.mechanisms.intervals import half_width, interval_of_mean, largest_sigma, sigma_of_sum
from models.mechanisms.promises import admit, check_mechanism
from models.mechanisms.raw import Raw
from models.mechanisms.registry import MECHANISMS, parse, register_mechanism
from models.mechanisms.suppressed import Suppressed
from models.mechanisms.tiered import Tiered
from models.mechanisms.versions import (
    CountedAgain,
    SeenRelease,
    Versions,
    all_versions,
    counted_again,
    revealed_by_shift,
    shares_noise,
)
from models.mechanisms.window_parts import (
    ErasureCoin,
    NoiseShare,
    joined_coins,
    most_revealed,
    share_reveal_probability,
    shared_reveal,
)
