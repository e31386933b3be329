"""Tools around a deployment on Kafka."""
