"""Priors as files and messages: JSON and Parquet.

What is read goes into a population at once: a file or message is no form of a chain of its own.
"""

from models.prior_files.evidence_file import load_evidence, save_evidence
from models.prior_files.files import load_population, save_population
from models.prior_files.prior_record import add_record, chain_to_record

__all__ = [
    "add_record",
    "chain_to_record",
    "load_evidence",
    "load_population",
    "save_evidence",
    "save_population",
]
