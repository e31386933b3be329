"""Priors as files and messages: JSON and Parquet."""

from models.prior_files.files import load_population, save_population
from models.prior_files.prior_record import PersonRecord, chain_to_record

__all__ = ["PersonRecord", "chain_to_record", "load_population", "save_population"]
