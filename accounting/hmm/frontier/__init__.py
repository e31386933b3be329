"""The best guess that may be wrong in some steps: guesses that attain much, and a bound on all."""
