#!/bin/sh
# The health check that the compose file asks for.
exec java -Xmx64m -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' org.apache.kafka.tools.BrokerApiVersionsCommand "$@"
