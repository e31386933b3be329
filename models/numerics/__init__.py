"""Numbers with the same bits on every machine: kernels compiled once and run on several threads."""
