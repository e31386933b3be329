"""Commands of a deployment on Kafka."""
