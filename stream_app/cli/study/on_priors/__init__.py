"""Commands that make priors and hold them against traces."""
