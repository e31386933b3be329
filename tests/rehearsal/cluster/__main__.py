"""``python -m tests.rehearsal.cluster``: everything in its order, then the comparison and the report."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from itertools import groupby
from pathlib import Path

import pytest
from kafka.errors import KafkaError

from models.exceptions import TallyguardError
from tests.kafka.cluster.brokers import Cluster
from tests.kafka.cluster.links import Network
from tests.kafka.cluster.public_reader import PublicReader
from tests.kafka.secured import PASSWORD, secured_properties
from tests.rehearsal.cluster import erasure, failures, report, rotation, upgrade
from tests.rehearsal.cluster.comparing import compare
from tests.rehearsal.cluster.fleet import Fleet
from tests.rehearsal.cluster.load import Load
from tests.rehearsal.cluster.site import USERS, Site
from tests.rehearsal.cluster.stage import Stage
from tests.rehearsal.images import ROOT
from tests.rehearsal.saying import RehearsalError, say

LAST_RELEASE = "1d80a63"
PARTS = ("upgrade", "failures", "rotation", "erasure")
_STEPS_AT_MOST, _STEPS_A_SECOND = 6000, 1.0


def main() -> int:
    """The exit status: 0 if everything was as it must be."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends it wants nothing left behind
    folder = (
        Path(tempfile.mkdtemp(prefix="tallyguard-cluster-")) if options.folder is None else options.folder
    )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _rehearse(folder.resolve(), options)
    except (RehearsalError, TallyguardError, KafkaError, KeyboardInterrupt, pytest.fail.Exception) as error:
        say(f"failed: {error}")
        return 1
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _rehearse(folder: Path, options: argparse.Namespace) -> None:
    """All steps in their order."""
    last = upgrade.checked_out(options.last_release, folder / "last-release")
    authority, pem = rotation.certificates_of(folder)
    with Network() as network:
        properties = {**secured_properties(pem), "inter.broker.listener.name": "AMONG"}
        cluster = Cluster(folder, network, properties, "SASL_SSL")
        logins = [f"SCRAM-SHA-512=[name={user},password={PASSWORD}]" for user in ("admin", *USERS)]
        cluster.format(*(part for each in logins for part in ("--add-scram", each)))
        try:
            cluster.start()
            say("three brokers run")
            site = Site(folder, cluster, authority, options.people)
            lines = site.messages(_STEPS_AT_MOST)
            steps = [list(group) for _, group in groupby(lines, key=lambda line: json.loads(line)["step"])]
            load = Load(steps, _STEPS_A_SECOND)
            public = PublicReader(lambda: site.deployment.connection, site.deployment.topics.releases)
            root = last if "upgrade" in options.parts else ROOT
            with Fleet(site, root) as fleet, public:
                stage = Stage(cluster, site, fleet, load, public)
                _play(stage, last, options)
        finally:
            cluster.stop()


def _play(stage: Stage, last: Path, options: argparse.Namespace) -> None:
    parts = options.parts
    upgrade.begin_with(stage, last if "upgrade" in parts else ROOT)
    upgraded = 0
    if "upgrade" in parts:
        upgrade.upgrade(stage, ROOT)
        upgraded = stage.load.sent
    if "failures" in parts:
        failures.one_broker_killed(stage)
        failures.one_broker_cut_off(stage)
        failures.two_brokers_gone(stage)
        failures.brokers_restarted(stage)
        stage.event("rolling restart of the workers", lambda: failures.workers_restarted(stage))
    first, erased = None, None
    if "rotation" in parts:
        rotation.passwords(stage)
        rotation.certificates(stage)
        rotation.snapshot_key(stage)
        rotation.page_token(stage)
        first = rotation.noise_key(stage)
    if "erasure" in parts:
        erased = erasure.person_erased(stage)
    stage.load.pause()
    stage.site.deployment.wait_for_steps(stage.load.sent)
    comparison = compare(stage, upgraded, first, erased)
    say(f"{comparison.steps} steps and {comparison.risks:,} risks are those of the embedded engine")
    report.write(options.output, stage, comparison, options.last_release)
    say(f"report written: {options.output}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rehearsal.cluster", description=__doc__)
    results = ROOT / "docs" / "results" / "tables" / "rehearsal-cluster.md"
    parser.add_argument("--output", type=Path, default=results, help="the report")
    parser.add_argument("--folder", type=Path, help="where everything is kept; a temporary one if left out")
    parser.add_argument("--keep", action="store_true", help="leave the folder, to look at")
    parser.add_argument("--last-release", default=LAST_RELEASE, help="the version to upgrade from")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="leave out the others")
    parser.add_argument("--people", type=int, default=100, help="people of the simulated city")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
