"""What a candidate step would do to everybody, without accounting it."""
