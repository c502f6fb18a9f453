"""Oriented particles: soft and rigid bodies by shape matching of few ellipsoids."""
