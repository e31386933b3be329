"""The engine on a real Apache Kafka, started from Maven's artifacts on loopback."""
