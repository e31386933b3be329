"""A broker that speaks TLS only, asks for SCRAM logins and lets roles do what the table says."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stream_app.kafka.broker.topic_checks import AccessRule
from tests.kafka.broker import Broker
from tests.watching.services import program

PASSWORD = "correct horse battery staple"
_MECHANISM = "SCRAM-SHA-512"


def make_certificates(folder: Path) -> tuple[Path, Path]:
    """An authority of our own, and the broker's key and certificate for 127.0.0.1 in one PEM file."""
    openssl = program("openssl")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "san.txt").write_text("subjectAltName=IP:127.0.0.1\n")
    new_key = ["-newkey", "rsa:2048", "-nodes"]
    authority = ["req", "-x509", *new_key, "-days", "30", "-subj", "/CN=test authority"]
    request = ["req", *new_key, "-subj", "/CN=broker"]
    sign = ["x509", "-req", "-days", "30", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    for arguments in (
        [*authority, "-keyout", "ca.key", "-out", "ca.pem"],
        [*request, "-keyout", "broker.key", "-out", "broker.csr"],
        [*sign, "-in", "broker.csr", "-out", "broker.crt", "-extfile", "san.txt"],
    ):
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)
    both = folder / "broker.pem"
    both.write_text((folder / "broker.key").read_text() + (folder / "broker.crt").read_text())
    return folder / "ca.pem", both


@contextmanager
def secured_broker(folder: Path, users: Sequence[str]) -> Iterator[tuple[Broker, Path]]:
    """The broker and its authority's certificate; every user has the same password, ``admin`` may do all."""
    authority, pem = make_certificates(folder / "certificates")
    broker = Broker(folder / "broker", extra=secured_properties(pem))
    broker.set("listeners", f"SASL_SSL://127.0.0.1:{broker.port},{broker.controller_listener}")
    broker.set("advertised.listeners", f"SASL_SSL://127.0.0.1:{broker.port}")
    scram = [f"{_MECHANISM}=[name={user},password={PASSWORD}]" for user in ("admin", *users)]
    broker.format(*(part for each in scram for part in ("--add-scram", each)))
    broker.start()
    try:
        yield broker, authority
    finally:
        broker.stop()


def secured_properties(pem: Path) -> dict[str, str]:
    """What makes a broker speak TLS and ask for logins and rights, with this key and certificate."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="admin" password="{PASSWORD}";'
    return {
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": _MECHANISM,
        "sasl.mechanism.inter.broker.protocol": _MECHANISM,
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": login,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(pem),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pem.with_name("ca.pem")),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }


def grant(admin: object, rules: Iterator[AccessRule]) -> None:
    """Give every role what the table says, through the admin client."""
    from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

    operations = {
        "Read": "READ",
        "Write": "WRITE",
        "Describe": "DESCRIBE",
        "DescribeConfigs": "DESCRIBE_CONFIGS",
    }
    kinds = {"topic": "TOPIC", "group": "GROUP", "transactional-id": "TRANSACTIONAL_ID", "cluster": "CLUSTER"}
    admin.create_acls(  # type: ignore[attr-defined]
        [
            ACL(
                f"User:{rule.role}",
                "*",
                ACLOperation[operations[rule.operation]],
                ACLPermissionType.ALLOW,
                ResourcePattern(ResourceType[kinds[rule.resource]], rule.name or "kafka-cluster"),
            )
            for rule in rules
        ]
    )
