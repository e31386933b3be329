"""A member that stands twice is refused at every door: readers differ in which of the two counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.exceptions import TallyguardError
from models.prior_files import load_population
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings_sources import load_settings
from stream_app.wire import Activation, Reading, Readings, Reason, Rejected, parse

MESSAGES = (
    Activation(v=1, step=3, sensors=("a", 'with "quotes"')),
    Reading(v=1, step=3, sensor='with "quotes": 5', count=41),
    Readings(v=1, step=3, counts={"a": 1, 'b": 2, "c': 3}),
)
PRIOR = '{"person": "p", "initial": null, "transition": [[0.5, 0.5], [0.5, 0.5]]}'


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("spaced", [(",", ":"), (" , ", " : ")])
def test_each_member_of_a_message_stands_once(message: Activation | Reading, spaced: tuple[str, str]) -> None:
    """Whatever member, wherever the second one stands, however the line is spaced."""
    fields = json.loads(message.line())
    line = json.dumps(fields, separators=spaced)
    assert parse(line.encode(), "test") == message
    for name, value in fields.items():
        member = f"{json.dumps(name)}{spaced[1]}{json.dumps(value)}"
        for twice in (f"{{{member}{spaced[0]}{line[1:]}", f"{line[:-1]}{spaced[0]}{member}}}"):
            found = parse(twice.encode(), "test")
            assert isinstance(found, Rejected), twice
            assert found.reason in (Reason.INVALID_FIELD, Reason.REPEATED_SENSOR)


def test_a_sensor_of_a_batch_stands_once() -> None:
    found = parse(b'{"v":1,"type":"readings","step":3,"counts":{"a":1,"a":2}}', "test")
    assert isinstance(found, Rejected)
    assert found.reason is Reason.REPEATED_SENSOR


@given(st.text(max_size=20), st.integers(0, 100))
def test_a_reading_of_any_sensor_is_taken(name: str, count: int) -> None:
    """The quick look at quotation marks refuses nothing that is well."""
    if not name:
        return
    for escaped in (True, False):
        fields = {"v": 1, "type": "reading", "step": 0, "sensor": name, "count": count}
        try:
            line = json.dumps(fields, ensure_ascii=escaped).encode()
        except UnicodeEncodeError:
            continue
        found = parse(line, "test")
        if isinstance(found, Rejected):
            assert "twice" not in found.hint


@pytest.mark.parametrize(
    ("name", "text", "load"),
    [
        ("priors.json", f'{{"people": [], "people": [{PRIOR}]}}', load_population),
        ("priors.json", f'{{"people": [{PRIOR[:-1]}, "person": "q"}}]}}', load_population),
        (
            "sensors.json",
            '{"sensors": [{"name": "a", "name": "b", "locations": [0]}]}',
            lambda path: load_registry(path, ["x"]),
        ),
        (
            "schedule.json",
            '{"steps": [{"sensors": [0], "mechanism": "raw", "mechanism": "gaussian"}]}',
            load_schedule,
        ),
        ("t.toml", "horizon = 3\nhorizon = 4\n", load_settings),
    ],
)
def test_each_member_of_a_file_stands_once(
    tmp_path: Path, name: str, text: str, load: Callable[..., object]
) -> None:
    (tmp_path / name).write_text(text)
    arguments = (
        (tmp_path / name,) if name != "schedule.json" else (tmp_path / name, load_registry(None, ["x"]))
    )
    with pytest.raises(TallyguardError, match=r"twice|[Oo]verwrite"):
        load(*arguments)
