"""From check-ins to priors."""
