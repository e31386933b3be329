"""The running system: messages, the step engine, the embedded runner, metrics, pages and the command line."""
