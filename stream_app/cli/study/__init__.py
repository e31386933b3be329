"""Commands that study priors, plans and what a run has released."""
