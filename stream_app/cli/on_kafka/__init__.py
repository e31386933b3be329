"""Commands of a deployment on Kafka.

Modules are imported singly, each when it runs.
"""
