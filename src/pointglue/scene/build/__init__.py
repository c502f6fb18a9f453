"""The builders that turn the tables of a scene file into the bodies of a simulation."""
