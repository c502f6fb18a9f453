"""From the tables of a scene file to the bodies of a simulation."""
