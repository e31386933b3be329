"""Commands that set a deployment up and run it.

Modules are imported singly, each when it runs.
"""
