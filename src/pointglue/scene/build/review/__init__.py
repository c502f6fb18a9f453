"""What `pointglue check` says about a scene: estimates, pitfalls, inconsistencies, and a summary."""
