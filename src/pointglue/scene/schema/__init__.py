"""The format of scene files: tables, units, materials, shapes, and how files are read."""
