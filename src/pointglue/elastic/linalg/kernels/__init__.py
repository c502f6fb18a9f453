"""Compiled loops of the linear algebra."""
