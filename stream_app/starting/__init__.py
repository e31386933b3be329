"""First steps: the demo, a deployment from counts, and compiling the kernels beforehand.

Modules are imported singly: compiling beforehand needs neither demo nor counts.
"""
