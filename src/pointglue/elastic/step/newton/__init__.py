"""Newton's method: its line search, its mixtures of Hessians, when it has converged, and where it stalls."""
