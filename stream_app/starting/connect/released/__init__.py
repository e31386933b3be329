"""What a run releases, followed as it grows, for connectors that send it on."""

from stream_app.starting.connect.released.followed_log import PublishedLog, ReleaseLog, StepTimes

__all__ = ["PublishedLog", "ReleaseLog", "StepTimes"]
