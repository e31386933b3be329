# Prometheus for the rehearsal: Debian's package, started as Prometheus' own image starts it.
ARG BASE
FROM ${BASE}
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends prometheus \
 && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner=nobody --group=nogroup /prometheus
USER 65534
ENTRYPOINT ["/usr/bin/prometheus"]
