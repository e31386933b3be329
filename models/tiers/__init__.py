"""Tiered release: recipients get one value at different privacy levels, and pooling them helps nobody."""
