"""Tables of the settings file: what all of them share, and those of connectors.

Modules are imported singly, as the settings are.
"""
