"""One deployment on three brokers: its files, its secrets, its users, and who is given what."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from stream_app.kafka.broker.topic_checks import AccessRule, roles
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import administration
from tests.kafka.cluster.brokers import Cluster
from tests.kafka.secured import PASSWORD, grant
from tests.kafka.support import SECRETS, OnKafka, small_city
from tests.rehearsal.cluster.clock import LaterClock
from tests.rehearsal.saying import RehearsalError

USERS = tuple(role.name for role in roles(Topics()))
_KEYS = {"NOISE": ("release",), "PSEUDONYM": ("loader",), "SNAPSHOT": ("account",)}
_RULE = re.compile(r"--allow-principal User:(\S+) --operation (\S+) --(\S+) ?(\S*)")


class Site:
    """What stands on the operator's disk, and what each process is given of it."""

    def __init__(self, folder: Path, cluster: Cluster, authority: Path, people: int) -> None:
        self.folder = folder
        self.clock = LaterClock(folder)
        self.authorities = folder / "ca.pem"
        self.authorities.write_text(authority.read_text())
        for user in ("admin", *USERS):
            self.password_file(user).write_text(PASSWORD)
        for name in _KEYS:
            self.key_file(name).write_text(SECRETS[f"TALLYGUARD_{name}_KEY_SECRET"])
            self.key_file(name).chmod(0o600)
        self.token_file = folder / "page.token"
        self.token_file.write_text(secrets.token_hex(16))
        population, sensors, self.messages = small_city(people)
        self.people = population
        self.deployment = OnKafka(
            folder / "site",
            cluster.address,
            population,
            sensors,
            with_topics=False,
            sharpen_operations=600_000,
            snapshot_seconds=20.0,
            kafka={
                "replication": 3,
                "session_seconds": 10,
                "security": "SASL_SSL",
                "ca_file": str(self.authorities),
                "username": "admin",
                "password_file": str(self.password_file("admin")),
            },
        )
        self.config = self.deployment.config

    def password_file(self, user: str) -> Path:
        """Where a user's password stands."""
        return self.folder / f"{user}.password"

    def key_file(self, name: str) -> Path:
        """Where a key stands: ``NOISE``, ``PSEUDONYM``, ``SNAPSHOT``."""
        return self.folder / f"{name.lower()}.key"

    def environment(self, user: str, root: Path) -> dict[str, str]:
        """What a process of a version is given: its login, its keys and no others."""
        given: dict[str, object] = {
            "KAFKA__USERNAME": user,
            "KAFKA__PASSWORD_FILE": self.password_file(user),
            "PAGE_TOKEN_FILE": self.token_file,
        }
        for name, users in _KEYS.items():
            is_known = f"{name.lower()}_key" in (root / "stream_app" / "setup" / "settings.py").read_text()
            if user in users and is_known:
                given[f"{name}_KEY"] = self.key_file(name)
        threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "PYTHONPATH": str(root)}
        return {**threads, **variables(given), **self.clock.environment}

    def command(self, user: str, root: Path, *arguments: str, code: int | None = 0) -> str:
        """What a command says; an error if it ends with another status (None: with any)."""
        line = [sys.executable, "-c", "from stream_app.cli import main; main()", *arguments]
        done = subprocess.run(
            [*line, "--config", str(self.config)],
            env={**os.environ, **self.environment(user, root)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        if code is not None and done.returncode != code:
            said = (done.stdout + done.stderr)[-1500:]
            raise RehearsalError(f"{' '.join(arguments)} must end with {code}, got {done.returncode}: {said}")
        return done.stdout

    def apply_rules(self, root: Path) -> int:
        """The rules that a version prints, given to the users; how many there are."""
        found = _RULE.findall(self.command("admin", root, "topics", "access"))
        rules = [AccessRule(user, resource, name, operation) for user, operation, resource, name in found]
        with administration(self.deployment.connection) as admin:
            grant(admin, iter(rules))
        return len(rules)

    def set_password(self, user: str) -> None:
        """A new password at the brokers, and in the file where the user's processes find it."""
        from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

        password = secrets.token_hex(24)
        with administration(self.deployment.connection) as admin:
            change = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, password)
            failure = admin.alter_user_scram_credentials([change])[user]
        if failure:
            raise RehearsalError(f"the brokers must take a new password of {user}: {failure}")
        self.password_file(user).write_text(password)
        self.deployment.log_in_anew()


def variables(values: Mapping[str, object]) -> dict[str, str]:
    """Settings as environment variables."""
    return {f"TALLYGUARD_{name}": str(value) for name, value in values.items()}
