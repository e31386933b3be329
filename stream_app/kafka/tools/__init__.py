"""Tools around a deployment on Kafka.

Modules are imported singly: see :mod:`stream_app.kafka`.
"""
