"""One person under one schedule: released information, guesses from the prior alone, the history before."""
