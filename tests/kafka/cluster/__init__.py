"""Three brokers as operators run them, and a network between them that can be cut."""
