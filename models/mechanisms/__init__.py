"""Release mechanisms: one file each, the same few verbs (:class:`models.mechanisms.base.Mechanism`)."""

from models.mechanisms.base import Mechanism, NoiseLaw

__all__ = ["Mechanism", "NoiseLaw"]
