"""The broker: connections, topics, access, and errors in words an operator can act on.

Modules are imported singly: see :mod:`stream_app.kafka`.
"""
