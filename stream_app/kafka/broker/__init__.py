"""The broker: connections, topics, access rights, and errors in words an operator can act on."""
