"""Everything known about one person under one schedule, and which release caused it."""
