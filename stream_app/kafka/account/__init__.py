"""Account workers: risks of the people in their partitions."""
