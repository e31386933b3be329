"""What an input topic has to hold for reading to go on."""

from __future__ import annotations

import pytest

from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.release.stream_task import InputLog, find_lost_records, require_nothing_lost
from stream_app.wire.messages import Reason


@pytest.mark.parametrize(
    ("log", "how"),
    [
        (InputLog("id", 0, 10), None),
        (InputLog("id", 10, 10), None),
        (InputLog("id", 3, 99), None),
        (InputLog("id", 0, 9), "ends at 9 already"),
        (InputLog("id", 11, 20), "begins at 11 only"),
        (InputLog("another", 0, 99), "made again"),
    ],
)
def test_reading_goes_on_at_the_next_record_or_says_what_is_missing(log: InputLog, how: str | None) -> None:
    lost = find_lost_records({"readings": 10}, {"readings": "id"}, {"readings": log})
    if how is None:
        assert lost == []
        return
    with pytest.raises(LogError, match=f"readings was read up to 10, but it .*{how}"):
        require_nothing_lost(lost, accept_changes=False)
    require_nothing_lost(lost, accept_changes=True)
    letter = lost[0].letter()
    assert (letter.reason, letter.source, letter.payload) == (Reason.RECORDS_LOST, "readings:10", "")
    assert lost[0].begin == log.begin


def test_a_new_deployment_and_one_that_knows_no_ids_yet_have_lost_nothing() -> None:
    log = InputLog("id", 5, 9)
    assert find_lost_records({}, {}, {"readings": log}) == []
    assert find_lost_records({"readings": 7}, {}, {"readings": log}) == []
