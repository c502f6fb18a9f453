"""One step as a minimisation: objective, Newton's method, the linear system, and events of bonds."""
