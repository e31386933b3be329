"""The engine on Kafka: one release worker, account workers for the people, and the tools around them.

Everything here is an adapter around the same :class:`stream_app.steps.engine.StepEngine` and accountant as
the embedded runner's; what is decided, published and accounted is decided there.

Modules are imported singly, here and in the folders: each process and tool loads only what it needs.
"""
