# A broker for the rehearsal: Kafka's jars, Debian's Java, and what the compose file expects of Kafka's own image.
ARG BASE
FROM ${BASE}
# Debian's Java links its manual pages into a folder that slim images leave out.
# hadolint ignore=DL3008
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install --yes --no-install-recommends default-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 1000 --create-home appuser \
 && install --directory --owner=appuser --group=appuser /var/lib/kafka/data
COPY jars /opt/kafka/libs
COPY --chmod=755 kafka-broker-api-versions.sh /opt/kafka/bin/
COPY --chmod=755 start-broker.sh /
USER 1000
CMD ["/start-broker.sh"]
