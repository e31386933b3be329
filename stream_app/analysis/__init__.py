"""A run before or after it happens: checks, plans, ledgers, reports."""
