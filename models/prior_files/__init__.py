"""Priors as files and messages: JSON and Parquet."""
