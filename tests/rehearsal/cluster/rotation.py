"""Every secret replaced while the cluster runs."""

from __future__ import annotations

import secrets
from pathlib import Path

from tests.kafka.secured import make_certificates
from tests.rehearsal.cluster.failures import brokers_restarted, wait_until_working, workers_restarted
from tests.rehearsal.cluster.site import USERS
from tests.rehearsal.cluster.stage import Stage
from tests.rehearsal.images import ROOT
from tests.rehearsal.saying import RehearsalError
from tests.watching.services import free_port, get


def passwords(stage: Stage) -> None:
    """One user after the other: at the brokers, in the file, then its processes are started again."""

    def rotate() -> None:
        for user in USERS:
            if user == "producer":
                continue  # it is this process, which logs in as the administrator
            stage.site.set_password(user)
        workers_restarted(stage)

    stage.event("passwords of all users replaced, workers restarted one by one", rotate)

    def rotate_outside() -> None:
        stage.load.pause()
        stage.site.set_password("admin")
        _connect_anew(stage)

    stage.event("the password of sender and reader replaced", rotate_outside)


def certificates(stage: Stage) -> None:
    """Another authority: trusted beside the old one, then used by brokers, then trusted alone."""
    site, folder = stage.site, stage.site.folder
    authority, pem = make_certificates(folder / "new-certificates")
    old = site.authorities.read_text()

    def trust(text: str) -> None:
        site.authorities.write_text(text)
        workers_restarted(stage)
        stage.load.pause()
        _connect_anew(stage)

    stage.event("a second authority trusted: workers restarted", lambda: trust(old + authority.read_text()))
    for broker in stage.cluster.brokers.values():
        broker.set("ssl.keystore.location", str(pem))
        broker.set("ssl.truststore.location", str(authority))
    brokers_restarted(stage, "brokers restarted one by one with certificates of the second authority")
    stage.event("the old authority trusted no more", lambda: trust(authority.read_text()))


def snapshot_key(stage: Stage) -> None:
    """For all account workers at once, as their snapshots are for each other."""

    def rotate() -> None:
        stage.site.key_file("SNAPSHOT").write_text(secrets.token_hex(32))
        for name in ("account-1", "account-2"):
            stage.fleet.stop(name)
        for name in ("account-1", "account-2"):
            stage.fleet.start(name)
            wait_until_working(stage, name)

    said = stage.fleet.said("account-1")
    stage.event("snapshot key replaced, both account workers restarted", rotate)
    words = stage.fleet.words("account-1", last=10**7)[said:]
    if "is not sealed with snapshot_key" not in words:
        raise RehearsalError(f"snapshots of the old key must be refused, got {words[-800:]}")
    stage.fact("snapshots sealed with the old key", "refused, every step accounted again")


def noise_key(stage: Stage) -> int:
    """The key of the next epoch; the first step that is drawn with it."""

    first: list[int] = []

    def advance() -> None:
        stage.fleet.stop("release")
        stage.site.command("release", ROOT, "keys", "advance")
        stage.fleet.start("release", "--accept-changes")
        wait_until_working(stage, "release")
        words = stage.fleet.words_of_this("release")
        first.append(int(words.rsplit("continues at step ", 1)[1].split()[0]))

    stage.event("noise key advanced", advance)
    stage.event("release worker restarted without --accept-changes", lambda: _restart_release(stage))
    return first[0]


def page_token(stage: Stage) -> None:
    """The old one opens the page no more, the new one does."""
    old, new, port = stage.site.token_file.read_text(), secrets.token_hex(16), free_port()

    def rotate() -> None:
        stage.site.token_file.write_text(new)
        stage.fleet.restart("account-1", "--listen", f"127.0.0.1:{port}")
        wait_until_working(stage, "account-1")

    stage.event("page token replaced, one account worker restarted", rotate)
    page = f"http://127.0.0.1:{port}/people.json"
    answers = {
        name: get(page, Authorization=f"Bearer {token}")[0] for name, token in (("old", old), ("new", new))
    }
    if answers != {"old": 401, "new": 200}:
        raise RehearsalError(f"the page must open for the new token only, got {answers}")
    stage.fact("page of single people", "401 for the old token, 200 for the new one")


def _connect_anew(stage: Stage) -> None:
    """Who sends and who reads, with the password and the authorities of now."""
    stage.load.begin(stage.site.deployment.connection, stage.site.deployment.topics)
    stage.public.connect_anew()


def _restart_release(stage: Stage) -> None:
    stage.fleet.restart("release")
    wait_until_working(stage, "release")


def certificates_of(folder: Path) -> tuple[Path, Path]:
    """The authority and the brokers' certificate that the cluster begins with."""
    return make_certificates(folder / "certificates")
