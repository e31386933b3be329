"""What a sensors file declares of counts: of what, how often of one person, over which steps."""

from stream_app.setup.declared.counting import KEYS, Counting, counting_of, is_whole

__all__ = ["KEYS", "Counting", "counting_of", "is_whole"]
