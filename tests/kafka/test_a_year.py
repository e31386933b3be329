"""A deployment grows old on Kafka: the workers write what the embedded run of the same year writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stream_app.kafka.tools.person_loading import write_locations
from stream_app.setup.run_folder.record import Author
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, wait_until
from tests.stream_app.a_year import (
    HALF_DAY,
    HORIZON,
    MISTAKES,
    ORIGIN,
    PARTS,
    STEPS,
    Part,
    holidays_of,
    input_until,
    make_key,
    run_part,
    sensors_document,
)
from tests.stream_app.engine_support import AFFORDED

_KEY = "TALLYGUARD_NOISE_KEY_SECRET"
_SETTINGS: dict[str, Any] = {
    "step_seconds": HALF_DAY,
    "origin": ORIGIN.isoformat(),
    "timezone": "Europe/Vienna",
    "holidays": [],
    "horizon": HORIZON,
    "mistakes": MISTAKES,
    "risk_every": 1,
    "attack_draws": 0,
    "grace": 0,
    "sharpen_operations": AFFORDED,
    "release": {"mechanism": "raw"},
}


class Year(OnKafka):
    """The deployment of the year, and its workers."""

    def begin(self, part: Part, key: str) -> None:
        """Start the release worker with what a part of the year has, and change who is accounted."""
        before = None if part.first == 0 else PARTS[PARTS.index(part) - 1]
        if before is None:
            self.plain = self.config.read_text()
        (self.folder / "sensors.json").write_text(sensors_document(part))
        write_locations(self.folder / "locations.txt", part.who.location_names)
        named = [f'[release]\nmechanism = "{part.release["mechanism"]}"']
        for name, own in part.release.get("sensors", {}).items():
            named += [f"[release.sensors.{name}]", *(f"{each} = {json.dumps(own[each])}" for each in own)]
        plain = self.plain.replace('[release]\nmechanism = "raw"\n', "")
        days = json.dumps([day.isoformat() for day in holidays_of(part)])
        plain = re.sub("(?m)^holidays = .*$", f"holidays = {days}", plain)
        self.config.write_text("\n".join([plain, *named]) + "\n")
        self.__dict__.pop("settings", None)
        said = part.said
        more = ("--accept-changes", "--reason", said.get("reason", "a new key")) if before else ()
        self.release = self.start("release", *more, **{_KEY: key})
        if before is None:
            self.load_people(part.who)
            self.account = self.start("account")
            return
        is_wider = part.who.location_names != before.who.location_names
        if is_wider or part.more:  # the worker is of the next version, or ends as it does not know a place
            assert self.account.stop() == 0, self.account.text
        begun = f"continues at step {part.first}"
        wait_until("the release worker goes on", lambda: self.release.says(begun), 120)
        if part.who.fingerprint != before.who.fingerprint:
            known, gone = self._entered(), len({*before.who.people} - {*part.who.people})
            self.load_people(
                part.who,
                None,
                remove_others=True,
                new_priors=said.get("new_priors"),
                author=Author("ada", said["reason"]),
            )
            if not is_wider:
                wait_until("all are known", lambda: self._entered() == known + len(part.who) + gone, 120)
        if is_wider or part.more:
            self.account = self.start("account")

    def _entered(self) -> int:
        """How many records and deletions of people the account worker has taken in while it runs."""
        found = re.findall(r"(\d+) records of people, (\d+) deletions", self.account.text)
        return sum(int(number) for each in found for number in each)


@pytest.mark.slow
def test_a_year_on_kafka_is_that_of_an_embedded_run(kafka: Broker, tmp_path: Path) -> None:
    """Byte for byte: releases and the risks of each person, whatever changed while workers went on."""
    make_key(tmp_path)
    ends = [*(part.first for part in PARTS[1:]), STEPS]
    lines, done = input_until(STEPS).splitlines(), 0
    listed = [(row["name"], (0,)) for row in json.loads(sensors_document(PARTS[0]))["sensors"]]
    with Year(tmp_path / "year", kafka.address, PARTS[0].who, listed, **_SETTINGS) as deployment:
        for number, (part, until) in enumerate(zip(PARTS, ends, strict=True)):
            run_part(number, tmp_path)
            deployment.begin(part, (tmp_path / "noise.key").read_text())
            count = len(input_until(until).splitlines())
            deployment.produce(lines[done:count])
            deployment.wait_for_steps(until, 150.0)
            done = count
            assert deployment.release.stop() == 0, deployment.release.text
        output = tmp_path / "out"
        assert deployment.releases() == (output / "releases.jsonl").read_bytes().splitlines()
        risks = (output / "risks.jsonl").read_bytes().splitlines()
        assert deployment.person_risks() == sorted(line for line in risks if b'"type":"risk",' in line)
        verified = deployment.command("verify", "--json")
        assert verified.ended() == 0, verified.text
        document = json.loads(verified.text)
        assert [each["step"] for each in document["people"]] == [120, 300, 400]
        assert document["people"][2]["words"] == "1 person with new priors (told) from step 400 on"
        said = [each["words"] for entry in document["entries"] for each in entry["changes"]]
        assert {'sensor "s2" removed', 'place "bridge" added', "noise_key: another one"} <= {*said}
