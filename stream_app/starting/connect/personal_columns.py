"""What must not enter: single people, images, addresses of devices. Known by names of columns and fields."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stream_app.exceptions import InputError

_PERSONS = (
    *("peopleid", "personid", "visitorid", "userid", "customerid", "passengerid", "pedestrianid", "trackid"),
    *("trackingid", "trajectoryid", "cardid", "ticketid", "licenseplate", "numberplate", "faceid"),
)
_IMAGES = ("snapshot", "image", "imagebase64", "imagedata", "photo", "picture", "thumbnail", "face")
_ADDRESSES = (
    *(
        "mac",
        "macaddress",
        "macaddr",
        "machash",
        "hashedmac",
        "clientmac",
        "devicemac",
        "wifimac",
        "wlanmac",
        "bssid",
    ),
    *("deviceaddress", "bluetoothaddress", "btaddress", "imei", "imsi", "msisdn", "advertisingid"),
)
_KINDS = (
    (_PERSONS, "events of single people", "count them per sensor and interval first, in memory"),
    (_IMAGES, "images", "have the counter send counts only; no image is stored here"),
    (_ADDRESSES, "addresses of devices", "have the counter send counts only; a hashed address is one, too"),
)
_ADDRESS = r"^(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$"


def refuse_personal_columns(source: str, names: Iterable[str]) -> None:
    """:class:`InputError` where a column's name says that a file is about people or devices, read or not."""
    for name in names:
        plain = _plain(name)
        for known, kind, remedy in _KINDS:
            if plain in known:
                raise InputError(f"{source} must hold counts", f"{kind}: {name!r}", remedy)


def is_address_name(name: str) -> bool:
    """Whether a field of this name holds the address of a device."""
    return _plain(name) in _ADDRESSES


def refuse_addresses(source: str, texts: Iterable[str]) -> None:
    """:class:`InputError` where what should name sensors has the form of devices' addresses."""
    if any(re.fullmatch(_ADDRESS, text) for text in texts):
        raise InputError(
            f"sensors of {source} must be named by places",
            "addresses of devices",
            "if these are the counters' own, replace them with names before; seen devices must not enter",
        )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())
