"""A cluster as operators run it: three brokers, failures, an upgrade, rotation, erasure.

``make rehearsal-cluster`` (``python -m tests.rehearsal.cluster``) runs all of it on loopback, as processes,
and needs no rights: Java, Maven, OpenSSL and a C compiler. It leaves nothing but its report.
"""
