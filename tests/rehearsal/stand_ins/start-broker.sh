#!/bin/sh
# As in Kafka's own image: the variable KAFKA_NODE_ID becomes the property node.id, and so on; the storage is formatted once.
set -eu
env | grep '^KAFKA_' | grep -v '^KAFKA_HEAP_OPTS=' | while IFS='=' read -r name value; do
    printf '%s=%s\n' "$(echo "${name#KAFKA_}" | tr 'A-Z_' 'a-z.')" "$value"
done >/tmp/server.properties
in_java() { java ${KAFKA_HEAP_OPTS:-} -cp '/opt/kafka/libs/*' "$@"; }
in_java kafka.tools.StorageTool format --ignore-formatted -t 5L6g3nShT-eMCtK--X86sw -c /tmp/server.properties
exec java ${KAFKA_HEAP_OPTS:-} -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/server.properties
