"""Doors of commands that set up or study: counts, check-ins, evidence, keys, files of a run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models.fitting import FitOptions, fit_priors, read_checkins, traces_of
from models.keys import NoiseKey, Pseudonymiser
from models.noise import CorrelatedNoise
from models.prior_files import load_population, save_evidence, save_population
from stream_app.analysis.ledger_document import load_log
from stream_app.analysis.priors_against_traces import WindowOptions
from stream_app.analysis.report.write import make_report
from stream_app.embedded.journal import PastTiers
from stream_app.setup.given_priors import location_names
from stream_app.setup.run_folder.durable import seal
from stream_app.setup.settings import Settings
from stream_app.starting.counts.deployment_files import sensor_places
from tests.fuzzing.check import COUNT, PERSON, TOKEN, Target, door
from tests.fuzzing.columns import checkins, counts, evidence, use_checkins, use_counts, use_evidence
from tests.fuzzing.files import as_file, memory_folder
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import REGISTRY, lines_of, messages_of_a_day, run_on, settings


@cache
def _run() -> Path:
    """An output folder of a run under a risk budget."""
    run = memory_folder() / "studied"
    budget = {"release": {"mechanism": "budget", "budget": {"share": 0.4, "added": 0.3}}}
    run_on(run, [lines_of(messages_of_a_day(6, 1, faults=True))], settings=budget)
    return run


def _with_other(name: str, read: Callable[[Path], object]) -> Callable[[str], Target]:
    """A run's folder in which one file has other content, as a command reads it."""

    def call(data: bytes) -> object:
        copy = memory_folder() / f"with-other-{name}"
        if not copy.exists():
            shutil.copytree(_run(), copy)
        (copy / name).write_bytes(data)
        return read(copy)

    return lambda door: Target(door, ((_run() / name).read_bytes(),), call, quick_inputs=300)


def _parquet(table: pa.Table) -> bytes:
    content = BytesIO()
    pq.write_table(table, content)
    return content.getvalue()


def _evidence() -> tuple[bytes, ...]:
    path = memory_folder() / "seed.parquet"
    save_evidence(evidence(), path)
    return (path.read_bytes(),)


def _covariance() -> tuple[bytes, ...]:
    content = BytesIO()
    np.save(content, np.array([[2.0, 0.5], [0.5, 1.0]]))
    return (content.getvalue(),)


def _with_fitted(data: bytes) -> object:
    """Priors that say what they were fitted to, as check-ins are cut for them."""
    path = memory_folder() / "fitted.json"
    path.write_bytes(data)
    population, windows = load_population(path), WindowOptions()
    options = windows.options(population)
    return windows.first(population, traces_of(population, _known_checkins(), options), options)


@cache
def _known_checkins() -> object:
    path = memory_folder() / "known.parquet"
    pq.write_table(checkins(), path)
    return read_checkins(path)


@cache
def _fitted() -> tuple[bytes, ...]:
    """As ``priors fit`` writes it, and with a label of assumed habits."""
    path = memory_folder() / "seed.json"
    save_population(
        fit_priors(
            _known_checkins(), FitOptions(window_seconds=60, min_windows=1, held_out_windows=2)
        ).population,
        path,
    )
    fitted = path.read_bytes()
    return fitted, fitted.replace(b'"fitted"', b'"assumed":"counts","fitted"')


@cache
def _settings(locations: Path) -> Settings:
    return settings(locations=locations)


def _audit(data: bytes) -> object:
    """What ``audit --json`` wrote, as a report is made from it."""
    path = memory_folder() / "audit.json"
    path.write_bytes(data)
    return make_report(path)


def _continued(data: bytes) -> object:
    """Values of a tier added later, as a restart puts them beside the log."""
    folder = memory_folder() / "continued"
    if not folder.exists():
        folder.mkdir()
        steps = [{"v": 1, "type": "release", "step": step, "releases": [_TIERED]} for step in range(4)]
        (folder / "releases.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
        (folder / "tiers.json").write_bytes(seal({"press": 2}))
    (folder / "continued-press.jsonl").write_bytes(data)
    past = PastTiers(folder, None, lambda step: None)
    return list(past.releases(0, 4)) and None


_TIERED = {"sensor": "A", "mechanism": "tiered", "tiers": {"public": {"epsilon": 0.2, "value": 7}}}
_CONTINUED = (
    b'{"v":1,"type":"continued","tier":"press","step":1,"values":{"A":{"epsilon":0.5,"value":4810397}}}\n'
)
_AUDIT = {
    "person": PERSON, "steps": 4, "mistakes": 1, "certified": 0.5, "certified_by": "moment", "baseline": 0.25,
    "attacks": {"map": {"success": 0.3, "low": 0.2, "high": 0.4}},
}  # fmt: skip

STUDIES: dict[str, Callable[[str], Target]] = {
    "counts, CSV": door(
        as_file("counts.csv", use_counts),
        f"time,A,B\n2026-01-01 00:00,{COUNT},2\n2026-01-01 01:00,,4\n2026-01-01 02:00,5,6\n".encode(),
        f"sensor;date;count\nA;01.02.2026 00:00;{COUNT}\nB;01.02.2026 00:00;7\nA;01.02.2026 01:00;8".encode(),
        b"timestamp,A\n1767225600,1\n1767229200,2\n1767232800,3\n",
        quick_inputs=1000,
    ),
    "counts, Parquet": lambda name: Target(
        name, (_parquet(counts()),), as_file("counts.parquet", use_counts), quick_inputs=300
    ),
    "list of sensors": door(
        as_file("places.csv", lambda path: sensor_places(path, ("A", "B"))),
        b"name,lat,lon,kind\nA,48.1,11.5,x\nB,48.2,11.6,y\n",
        b"id;latitude;longitude\n7;1;2\nA;48.1;11.5\nB;;\n",
        quick_inputs=1000,
    ),
    "check-ins, CSV": door(
        as_file("checkins.csv", use_checkins),
        f"user,time,loc\n{PERSON},1000000,A\nb,1000070,B\n{PERSON},1000200,7\nb,1000130,A\n".encode(),
        b'lat,loc,user,time\n1.5,"cafe, old",10,1000\n,gym,9,2000.0\n',
    ),
    "check-ins, Parquet": lambda name: Target(
        name, (_parquet(checkins()),), as_file("checkins.parquet", use_checkins), quick_inputs=300
    ),
    "evidence, Parquet": lambda name: Target(
        name, _evidence(), as_file("evidence.parquet", use_evidence), quick_inputs=300
    ),
    "fitted windows": lambda name: Target(name, _fitted(), _with_fitted, secrets=(), quick_inputs=1000),
    "locations": door(
        as_file("locations.txt", lambda path: location_names(_settings(path), "here", "write it")),
        b"A\nB\nplace of C\n",
    ),
    "noise key": door(
        as_file("noise.key", NoiseKey.load),
        b"epoch 3\n" + hex_key("11").encode(),
        TOKEN.encode() + hex_key("22").encode(),
        secrets=(TOKEN, hex_key("11")[:32]),
    ),
    "pseudonym key": door(
        as_file("pseudonym.key", Pseudonymiser.load), hex_key("11").encode(), secrets=(hex_key("11")[:32],)
    ),
    "noise covariance": lambda name: Target(name, _covariance(), as_file("noise.npy", CorrelatedNoise.load)),
    "audit in a report": door(_audit, *(json.dumps(each).encode() for each in ([_AUDIT], [_AUDIT] * 2))),
    "run.json in a report": _with_other("run.json", make_report),
    "risks.jsonl in a report": _with_other("risks.jsonl", make_report),
    "decisions.jsonl in a report": _with_other("decisions.jsonl", make_report),
    "decisions.jsonl in a ledger": _with_other("decisions.jsonl", lambda path: load_log(path, REGISTRY)),
    "continued tier": door(_continued, _CONTINUED, _CONTINUED + _CONTINUED.replace(b'"step":1', b'"step":3')),
}
