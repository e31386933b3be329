"""Release decisions under a risk budget: from priors, schedule and what was accounted, never from a count."""
