"""Generic numerics: roots that err to the safe side, and confidence bounds on probabilities."""
