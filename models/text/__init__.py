"""Text from outside: JSON and TOML that cannot harm the reader, and what a misspelt name may mean."""
