"""Connectors of brokers and services, against real ones on loopback."""
