"""What others would write or take for the same work, run the way their users run it."""
