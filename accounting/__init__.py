"""What a release costs each person: information, bounds, attacks, the continuous accountant.

Imports :mod:`models`; never :mod:`stream_app`.
"""
