"""What is believed about people's movements, and how counts are made public.

Movement priors, packed populations, fitting, sensors, release mechanisms and their keyed noise.
This package imports neither :mod:`accounting` nor :mod:`stream_app`.
"""
