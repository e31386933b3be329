"""Containers for real on a bare Debian machine: images built, the compose file up, everything killed once.

``make rehearsal`` (``python -m tests.rehearsal``, as root) repeats it from nothing and leaves nothing.
Nothing outside the standard library is imported; what it needs besides is installed from Debian's packages.
"""
