"""A run before or after it happens: checks, plans, ledgers, reports.

Modules are imported singly, each by the command it serves: all of them take twice as long as one.
"""
