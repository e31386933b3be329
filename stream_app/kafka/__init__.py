"""The engine on Kafka: one release worker, account workers for the people, and the tools around them.

Everything here is an adapter around the same :class:`stream_app.steps.engine.StepEngine` and accountant as
the embedded runner's; what is decided, published and accounted is decided there.
"""
