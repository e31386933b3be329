"""What a deployment declares of counts: of what, how often of one person, in which steps, scaled by what."""

from stream_app.setup.declared.counting import KEYS, Counting, counting_of, is_whole
from stream_app.setup.declared.scaled_counts import most_counts_of, require_most_counts

__all__ = ["KEYS", "Counting", "counting_of", "is_whole", "most_counts_of", "require_most_counts"]
