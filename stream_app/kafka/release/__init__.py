"""The release worker: closes steps, draws values and writes the logs.

Modules are imported singly: see :mod:`stream_app.kafka`.
"""
