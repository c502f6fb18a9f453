"""Contact: its options, the surfaces that meet, barrier and friction in a step, checks of the start."""
