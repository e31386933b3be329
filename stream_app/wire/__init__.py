"""Messages as they come in and go out: JSON lines, CSV, files and pipes."""
