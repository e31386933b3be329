"""Commands that study priors, plans and what a run has released.

Modules are imported singly, each when it runs.
"""
