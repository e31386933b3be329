"""What commands share: options, output, settings."""
