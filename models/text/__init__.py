"""Text from outside: JSON and TOML that cannot harm the reader, and what a misspelt name may mean."""

from models.text.cells import cell_text, safe_cell
from models.text.close_names import CloseNames
from models.text.documents import DocumentError, distinct_members, parse_json, parse_toml
from models.text.json_stream import JsonStream, JsonSyntaxError

__all__ = [
    "CloseNames",
    "DocumentError",
    "JsonStream",
    "JsonSyntaxError",
    "cell_text",
    "distinct_members",
    "parse_json",
    "parse_toml",
    "safe_cell",
]
