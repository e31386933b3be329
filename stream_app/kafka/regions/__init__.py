"""A release side of several regions: intake workers publish, one coordinator decides and sees no count.

Modules are imported singly, as everywhere in :mod:`stream_app.kafka`.
"""
