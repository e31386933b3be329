"""One log of what was released, several readers: what it costs by each notion of privacy."""
