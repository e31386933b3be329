"""A worker process of its own: broker, group, watchdog, compiled kernels, metrics."""
