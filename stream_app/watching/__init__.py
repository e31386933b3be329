"""What observers see of a running engine: events, metrics, words for numbers."""
