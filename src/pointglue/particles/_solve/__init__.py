"""How a step of the particle solver is worked out: schedules, pairs in contact, plasticity."""
