"""Commands that make priors and hold them against traces, each importing what it needs when it runs."""
