"""What commands share: options, output, settings.

Modules are imported singly: this is what every `--help` waits for.
"""
