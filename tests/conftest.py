"""How tests are shared out to processes, and that none of them is timed."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.volume import DAY, SLOW_PARTS, has_its_turn, try_a_part

# A loaded machine is slow, which is no fault. What is drawn depends on the day alone.
settings.register_profile("any machine", deadline=None, derandomize=False)
settings.load_profile("any machine")

# Looking for cycles of garbage took a half of collecting tests: little of what that makes is ever garbage.
gc.set_threshold(100_000, 20, 100)

# Tests of brokers other than Kafka wait for clocks and answers: one process does, or at times all would.
BROKERS = "tests/stream_app/starting/brokers/"
# Each takes minutes in one process. Those on Kafka wait most of the time: they begin at once, while others
# compute. A process takes up to two tests ahead: what computes for minutes must not stand before who waits.
LONG = (
    "tests/kafka/regions/",  # and with them all that share its broker
    "tests/kafka/faults/",
    "tests/kafka/",
    BROKERS,
    "tests/accounting/test_array_indices.py",
)


@pytest.hookimpl(tryfirst=True)  # hypothesis looks at its option when it is its turn
def pytest_configure(config: pytest.Config) -> None:
    """One day's random cases are the same in all processes, and can be tried again."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = DAY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many slow tests wait for another day; how to try the same random cases again, where one failed."""
    if SLOW_PARTS > 1:
        terminalreporter.write_line(f"a part of {SLOW_PARTS} of the slow tests was run; `make thorough`: all")
    if terminalreporter.stats.get("failed"):
        day = os.environ["CASES_OF"]
        terminalreporter.write_line(f"CASES_OF={day} in the environment tries the same random cases again")


class _AtOnce:
    """What failed says so at once: a run that is cut off has told it."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self.reporter = reporter

    @pytest.hookimpl(trylast=True)  # after its letter
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            said = (report.longreprtext.strip() or "no traceback").splitlines()[-12:]
            self.reporter.write_line("\n".join([f"\nFAILED {report.nodeid} ({report.when})", *said]))


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """A folder in a test's own: what a run keeps beside it goes with it, before the name comes again."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def all_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs refine as much as they do by default."""
    from accounting.settings import OPERATIONS
    from tests.stream_app import engine_support

    monkeypatch.setattr(engine_support, "AFFORDED", OPERATIONS)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Processes that run tests have a reporter, too, which nobody sees."""
    config = session.config
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_AtOnce(config.pluginmanager.get_plugin("terminalreporter")))


@pytest.hookimpl(tryfirst=True)  # xdist looks at the groups when it is its turn
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that share a fixture of their module run on one day in one process, or each would make its own.

    Property tests try a part of their cases. The longest tests are first, or one process would still run them
    when the others have nothing to do.
    """
    sharing = {item for item in items if _shares_with_its_module(item)}
    waiting = {
        item
        for item in items
        if item.get_closest_marker("slow")
        and not has_its_turn(_file(item) if item in sharing else item.nodeid)
    }
    if waiting:
        config.hook.pytest_deselected(items=list(waiting))
        items[:] = [item for item in items if item not in waiting]
    try_a_part({item.obj for item in items if is_hypothesis_test(getattr(item, "obj", None))})
    for item in items:
        has_broker = _file(item).startswith(BROKERS)
        if (has_broker or item in sharing) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(BROKERS if has_broker else _file(item)))
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: it is not looked through again."""
    gc.collect()
    gc.freeze()


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _shares_with_its_module(item: pytest.Item) -> bool:
    fixtures = item._fixtureinfo.name2fixturedefs.values()  # type: ignore[attr-defined]
    return any(fixture.scope == "module" for found in fixtures for fixture in found)


def _turn(item: pytest.Item) -> tuple[int, bool]:
    long = next((i for i, name in enumerate(LONG) if item.nodeid.startswith(name)), len(LONG))
    return long, item.get_closest_marker("slow") is None
