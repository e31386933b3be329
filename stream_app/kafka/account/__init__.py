"""Account workers: risks of the people in their partitions.

Modules are imported singly: see :mod:`stream_app.kafka`.
"""
