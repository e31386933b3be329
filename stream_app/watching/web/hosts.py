"""Whom the page answers by which name: a page elsewhere must not read it through a visitor's browser.

A site can let its own name stand for this machine's address (DNS rebinding); the browser then takes what
the engine answers for that site's own. It sends that name as ``Host``. Addresses cannot be rebound, and
loopback's own names are nobody else's; any other name is answered only where the settings have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

_LOOPBACK = "localhost"


def is_own_host(host: str | None, names: Iterable[str]) -> bool:
    """Whether a ``Host`` header names this server; ``names`` are those of the settings, without ports."""
    if host is None:  # HTTP/1.0, which browsers do not speak
        return True
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    name = name.removesuffix(".")
    try:
        ip_address(name)
    except ValueError:
        return name == _LOOPBACK or name.endswith(f".{_LOOPBACK}") or name in {n.lower() for n in names}
    return True
