"""Jitted kernels: arrays and scalars in, arrays and scalars out. No settings, no logging, no exceptions."""
