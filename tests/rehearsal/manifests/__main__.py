"""``python -m tests.rehearsal.manifests``: build, serve, ask, write the report, end the server."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.rehearsal.images import ROOT
from tests.rehearsal.manifests.building import ETCD, KUBECONFORM, KUBERNETES, OPERATOR, build
from tests.rehearsal.manifests.checking import conform, dry_run, refusals
from tests.rehearsal.manifests.serving import serving
from tests.rehearsal.saying import RehearsalError, say

_PAGE = """# Kubernetes manifests before a real API server

Made by `make rehearsal-kubernetes`: kube-apiserver and kubectl {kubernetes}, etcd {etcd}, kubeconform
{kubeconform} and the definitions of the Prometheus operator {operator}, all built from Go's module proxy.
Nothing was scheduled: there are no machines behind this API server. What it checks is what a cluster checks
when manifests are applied: fields and values, defaults, quantities, names, and the namespace's `restricted`
standard.

| what | found |
|---|---|
{rows}
"""


def main() -> int:
    """The exit status: 0 if everything was accepted that must be, and refused that must be."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="tallyguard-manifests-") as temporary:
        folder = options.folder or Path(temporary)
        try:
            built = build(folder.resolve())
            rows = [
                (f"kubeconform, strict, Kubernetes {version}", summary)
                for version, summary in conform(built, Path(temporary) / "schemas").items()
            ]
            with serving(built.programs, Path(temporary) / "server") as cluster:
                objects, pods = dry_run(cluster, built.definitions)
                broken = refusals(cluster)
        except RehearsalError as error:
            say(f"failed: {error}")
            return 1
    rows += [
        (f"server-side dry run of `{name}`", f"{count} objects accepted, no warning")
        for name, count in objects.items()
    ]
    rows += [("pods of all workloads, one by one, under `restricted`", f"{pods} accepted")]
    rows += [(f"{what}, to see that it can fail", "refused") for what in broken]
    lines = "\n".join(f"| {what} | {found} |" for what, found in rows)
    versions = {"kubernetes": KUBERNETES, "etcd": ETCD, "kubeconform": KUBECONFORM, "operator": OPERATOR}
    options.output.write_text(_PAGE.format(rows=lines, **versions))
    say(f"report written: {options.output}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rehearsal.manifests", description=__doc__)
    results = ROOT / "docs" / "results" / "tables" / "rehearsal-kubernetes.md"
    parser.add_argument("--output", type=Path, default=results, help="the report")
    parser.add_argument("--folder", type=Path, help="where programs are kept; a temporary one if left out")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
