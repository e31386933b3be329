"""Small scripts, each of which proves one claim about speed and prints one table."""
