"""What the pages say that the compose file publishes on loopback: the release worker's and Prometheus'."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

RELEASE, PROMETHEUS = "http://127.0.0.1:9464", "http://127.0.0.1:9090"


def page(address: str) -> str | None:
    """The text of a page; None if nobody answers, or not with 200."""
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return str(answer.read().decode())
    except (OSError, urllib.error.HTTPError):
        return None


def is_ready() -> bool:
    """Whether the release worker has its broker, its people and its log."""
    return page(f"{RELEASE}/-/ready") is not None


def last_step() -> int:
    """The last step that the release worker has closed; -1 while it does not answer."""
    for line in (page(f"{RELEASE}/metrics") or "").splitlines():
        if line.startswith("tallyguard_last_step "):
            return int(float(line.split()[1]))
    return -1


def ask(query: str) -> list[dict[str, Any]]:
    """Series that answer an instant query; none while Prometheus does not answer."""
    answer = page(f"{PROMETHEUS}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    series: list[dict[str, Any]] = [] if answer is None else json.loads(answer)["data"]["result"]
    return series


def number(query: str) -> float | None:
    """The one number of an answer."""
    series = ask(query)
    return float(series[0]["value"][1]) if len(series) == 1 else None


def rules() -> list[dict[str, Any]]:
    """All rules of Prometheus, with their health."""
    answer = page(f"{PROMETHEUS}/api/v1/rules")
    groups = [] if answer is None else json.loads(answer)["data"]["groups"]
    return [rule for group in groups for rule in group["rules"]]
