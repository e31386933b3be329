"""Secrets: the noise key, pseudonyms, and the random words drawn from them."""
