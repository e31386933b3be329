"""A real engine in a process of its own that shows all it can, on a small simulated city, fed by the hour."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stream_app.city import City, CityOptions, build_city
from stream_app.starting.demo import Scenario, prepare
from tests.copies import COMMAND_LINE, Copy
from tests.watching.services import free_port, get, until_over, wait_until

COMPILE_SECONDS = 600.0  # a machine that has not compiled the kernels yet does it now
TOKEN = "a-token-for-the-tests-only"


class LiveEngine:
    """A running engine that waits for messages; :meth:`send` lets simulated hours pass."""

    def __init__(self, process: Copy, port: int, city: City, scenario: Scenario) -> None:
        self.process, self.port, self.city, self.scenario = process, port, city, scenario
        self.address = f"http://127.0.0.1:{port}/"
        self._lines = [b"".join(message.line() for message in step.messages()) for step in city.steps(200)]
        self._sent = 0

    def send(self, hours: int) -> None:
        """Let this many simulated hours pass, and one line that is no message."""
        assert self.process.stdin is not None
        for lines in self._lines[self._sent : self._sent + hours]:
            self.process.stdin.write(lines)
        self.process.stdin.write(b"no message\n")
        self.process.stdin.flush()
        self._sent += hours

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        for line in get(self.address + "metrics")[1].splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        raise AssertionError(f"{name} is not exposed")

    def wait_for_step(self, step: int) -> None:
        """Until the step is closed."""
        wait_until(f"step {step}", lambda: self.metric("tallyguard_last_step") >= step, COMPILE_SECONDS)


@contextmanager
def live_engine(folder: Path, people: int = 120, token: str | None = TOKEN) -> Iterator[LiveEngine]:
    """An engine that listens on loopback and has closed nothing yet."""
    city = build_city(CityOptions(people=people))
    scenario = prepare(folder, city)
    port = free_port()
    with scenario.settings.open("a") as settings:
        settings.write("[release.budget]\nshare = 0.01\nadded = 0.25\n[crowd]\non = true\n")
    if token is not None:
        (folder / "page.token").write_text(token)
        text = scenario.settings.read_text()
        scenario.settings.write_text(f'page_token_file = "{folder / "page.token"}"\n{text}')
    words = [
        *("run", "--keep-open", "--priors", str(scenario.priors), "--config", str(scenario.settings)),
        *("--output", str(scenario.output), "--listen", f"127.0.0.1:{port}"),
    ]
    process = Copy(COMMAND_LINE, words, os.environ, folder / "engine.log", piped=True)
    with until_over(process):
        engine = LiveEngine(process, port, city, scenario)
        wait_until("the engine's page", lambda: get(engine.address + "-/ready")[0] == 200, COMPILE_SECONDS)
        yield engine
