"""Contact: which surfaces meet, the barrier between them, friction, and how the start is looked at."""
