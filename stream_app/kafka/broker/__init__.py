"""The broker: connections, topics, access, and errors in words an operator can act on."""
