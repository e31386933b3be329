"""What is believed about movements: one Markov chain a person, and the packed population."""
