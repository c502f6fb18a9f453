"""Compiled loops of contact: pairs, colliders, hulls, thin parts, friction, and impulses between bodies."""
