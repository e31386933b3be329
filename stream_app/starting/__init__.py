"""First steps: the demo, a deployment from counts or of a building, and compiling the kernels beforehand.

Modules are imported singly: compiling beforehand needs neither demo nor counts.
"""
