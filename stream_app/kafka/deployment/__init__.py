"""What all processes of a deployment share, and the records on its topics.

Modules are imported singly: see :mod:`stream_app.kafka`.
"""
