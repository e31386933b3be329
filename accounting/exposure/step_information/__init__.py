"""What one step reveals about one person: observations, step information, renewals, contraction."""
