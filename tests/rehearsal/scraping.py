"""What Prometheus sees of the workers: every target up, key metrics there, rules healthy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tests.rehearsal import pages
from tests.rehearsal.composition import Composition
from tests.rehearsal.saying import say, wait_until

_KEY_METRICS = (
    "tallyguard_last_step",
    "tallyguard_releases_total",
    "tallyguard_readings_total",
    "tallyguard_rejected_total",
    "tallyguard_people",
    "tallyguard_risk_mean",
    "tallyguard_added_risk_mean",
    "tallyguard_running",
)
_SECONDS = 180.0


@dataclass(frozen=True)
class Scraped:
    """What was found."""

    targets: int
    people: int
    metrics: tuple[str, ...]
    rules: int
    firing: tuple[str, ...]


def _is_scraped(metric: str) -> bool:
    return bool(pages.ask(metric))


def check(composition: Composition) -> Scraped:
    """Wait until everything is seen; an error names what is not."""
    workers = composition.replicas("release") + composition.replicas("account")
    command = composition.services["persons"]["command"]
    people = int(command[command.index("--city-people") + 1])
    up = 'count(up{job="tallyguard"} == 1)'
    wait_until(f"{workers} targets up", lambda: pages.number(up) == workers, _SECONDS)
    wait_until(f"{people} people scraped", lambda: pages.number("sum(tallyguard_people)") == people, _SECONDS)
    for metric in _KEY_METRICS:
        wait_until(f"{metric} scraped", partial(_is_scraped, metric), _SECONDS)
    wait_until("all rules evaluated", lambda: {rule["health"] for rule in pages.rules()} == {"ok"}, _SECONDS)
    rules = pages.rules()
    firing = tuple(sorted(rule["name"] for rule in rules if rule.get("state") == "firing"))
    say(
        f"Prometheus: {workers} targets up, {people:,} people, {len(rules)} rules, firing: {firing or 'none'}"
    )
    return Scraped(workers, people, _KEY_METRICS, len(rules), firing)
