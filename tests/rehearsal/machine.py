"""What the machine must have, and the engine that runs on it: Podman with settings and storage of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.rehearsal.saying import RehearsalError, say

_PACKAGES = {  # a file that shows that a package is there, and the package
    "podman": "podman",
    "runc": "runc",
    "iptables": "iptables",
    "/usr/lib/podman/netavark": "netavark",
    "/usr/lib/podman/aardvark-dns": "aardvark-dns",
    "catatonit": "catatonit",
    "debootstrap": "debootstrap",
    "mvn": "maven",
    "openssl": "openssl",
}


def prepare() -> None:
    """Install what is missing, where that is allowed; else say what is."""
    missing = sorted(package for file, package in _PACKAGES.items() if shutil.which(file) is None)
    if os.geteuid() != 0 or (missing and shutil.which("apt-get") is None):
        wanted = f"; missing: apt install {' '.join(missing)}" if missing else ""
        raise RehearsalError(f"a rehearsal must be run as root on Debian or Ubuntu{wanted}")
    if missing:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
            command = ["apt-get", *arguments]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RehearsalError(f"apt-get could not install {' '.join(missing)}: {done.stderr[-500:]}")
        say(f"installed {', '.join(missing)}")


def check_ports(*ports: int) -> None:
    """The pages that the compose file publishes must be free on loopback."""
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                raise RehearsalError(f"port {port} of 127.0.0.1 must be free; end what listens there")


class Engine:
    """Podman with storage, networks and settings in one folder: nothing of the machine's own is touched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in self._settings().items():
            (folder / name).write_text(text)
        self.environment: Mapping[str, str] = {
            **os.environ,
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        }

    def run(self, *arguments: str, seconds: float = 300.0) -> str:
        """What a Podman command prints; an error if it fails."""
        done = self.tried(*arguments, seconds=seconds)
        if done.returncode != 0:
            said = (done.stderr + done.stdout)[-1500:]
            raise RehearsalError(f"podman {' '.join(arguments[:3])} failed: {said}")
        return done.stdout

    def tried(self, *arguments: str, seconds: float = 300.0) -> subprocess.CompletedProcess[str]:
        """A Podman command, whether it succeeds or not."""
        command = ["nice", "podman"] if arguments[0] == "build" else ["podman"]  # containers inherit it
        return subprocess.run(
            [*command, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )

    def inspect(self, container: str, what: str) -> str:
        """A field of a container, as Go writes it."""
        return self.run("inspect", "--format", f"{{{{.{what}}}}}", container).strip()

    def last_words(self, container: str) -> str:
        """The end of what a container has said."""
        said = self.tried("logs", "--tail", "15", container)
        return (said.stdout + said.stderr)[-1500:]

    def size_bytes(self, image: str) -> int:
        """All layers of an image together."""
        return int(self.run("image", "inspect", "--format", "{{.Size}}", image))

    def remove_everything(self) -> None:
        """Containers, networks, volumes, images and the folder itself: all of it was made here."""
        for arguments in (("rm", "--all", "--force", "--time", "0"), ("network", "prune", "--force")):
            self.tried(*arguments)
        self.tried("volume", "prune", "--force")
        self.tried("rmi", "--all", "--force")
        for mounted in (self.folder / "storage" / "overlay", self.folder / "storage"):
            if mounted.is_mount():
                subprocess.run(["umount", str(mounted)], check=False)
        shutil.rmtree(self.folder)

    def _settings(self) -> dict[str, str]:
        folder = self.folder
        return {
            "containers.conf": "\n".join(
                (
                    "[containers]",
                    'default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]',
                    f'init_path = "{shutil.which("catatonit")}"',
                    "[engine]",
                    'runtime = "runc"',
                    'cgroup_manager = "cgroupfs"',
                    'events_logger = "file"',
                    f'tmp_dir = "{folder / "engine"}"',
                    "[network]",
                    f'network_config_dir = "{folder / "networks"}"',
                    "",
                )
            ),
            "storage.conf": "\n".join(
                (
                    "[storage]",
                    'driver = "overlay"',
                    f'graphroot = "{folder / "storage"}"',
                    f'runroot = "{folder / "run"}"',
                    "",
                )
            ),
        }
