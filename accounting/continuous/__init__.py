"""The continuous accountant: everybody's risk over a sliding horizon, step by step."""
