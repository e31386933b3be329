"""The Kubernetes manifests held against a real API server, built from Go's module proxy with all it needs.

``make rehearsal-kubernetes`` (``python -m tests.rehearsal.manifests``) needs Go, half an hour for the first
build, and no cluster: nothing is scheduled, everything else is as in one.
"""
