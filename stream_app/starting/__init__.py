"""First steps: the demo, a deployment from counts, and compiling the kernels beforehand."""
