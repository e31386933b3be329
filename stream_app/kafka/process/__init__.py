"""A worker process of its own: broker, group, watchdog, compiled kernels, metrics.

Modules are imported singly: see :mod:`stream_app.kafka`.
"""
