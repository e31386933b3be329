"""One API server on loopback with an etcd of its own."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.rehearsal.saying import RehearsalError, wait_until

_START_SECONDS, _STOP_SECONDS = 300.0, 20.0


class Cluster:
    """Asked through kubectl, as an operator does."""

    def __init__(self, programs: Path, configuration: Path) -> None:
        self._kubectl = [str(programs / "kubectl"), "--kubeconfig", str(configuration)]

    def tried(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """A command, whether it succeeds or not."""
        command = [*self._kubectl, *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=300)

    def run(self, *arguments: str, given: str = "") -> str:
        """What a command prints; an error if it fails, or if the server warns."""
        done = self.tried(*arguments, given=given)
        if done.returncode != 0 or "Warning:" in done.stderr:
            raise RehearsalError(f"kubectl {' '.join(arguments[:3])}: {done.stderr[-1500:]}")
        return done.stdout

    def objects(self, *arguments: str, given: str = "") -> list[dict[str, Any]]:
        """The objects that a command answers with."""
        answer = json.loads(self.run(*arguments, "--output", "json", given=given))
        items: list[dict[str, Any]] = answer["items"] if answer["kind"] == "List" else [answer]
        return items


@contextmanager
def serving(programs: Path, folder: Path) -> Iterator[Cluster]:
    """An API server while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    store, peers, port = (_free_port() for _ in range(3))
    key = folder / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    configuration = folder / "kubeconfig"
    configuration.write_text(_kubeconfig(port, folder, token))
    cluster = Cluster(programs, configuration)
    with ExitStack() as stack:
        stack.enter_context(_running(_etcd(programs, folder, store, peers), folder / "etcd.log"))
        stack.enter_context(_running(_api_server(programs, folder, store, port), folder / "api-server.log"))
        wait_until(
            "the API server", lambda: cluster.tried("get", "--raw", "/readyz").returncode == 0, _START_SECONDS
        )
        yield cluster


def _etcd(programs: Path, folder: Path, port: int, peers: int) -> list[str]:
    address, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    return [
        *(str(programs / "etcd"), "--data-dir", str(folder / "etcd"), "--log-level", "error"),
        *("--listen-client-urls", address, "--advertise-client-urls", address),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"default={peer}"),
    ]


def _api_server(programs: Path, folder: Path, store: int, port: int) -> list[str]:
    key = str(folder / "accounts.key")
    return [
        *(str(programs / "kube-apiserver"), "--etcd-servers", f"http://127.0.0.1:{store}"),
        *("--bind-address", "127.0.0.1", "--secure-port", str(port), "--cert-dir", str(folder)),
        *("--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.0.0.0/24"),
        *("--authorization-mode", "RBAC", "--token-auth-file", str(folder / "tokens.csv")),
        *("--service-account-issuer", "https://rehearsal", "--service-account-key-file", key),
        *("--service-account-signing-key-file", key),
    ]


def _kubeconfig(port: int, folder: Path, token: str) -> str:
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority": str(folder / "apiserver.crt"),
        "tls-server-name": "kubernetes",
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rehearsal",
            "clusters": [{"name": "rehearsal", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "rehearsal", "context": {"cluster": "rehearsal", "user": "admin"}}],
        }
    )


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[None]:
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
