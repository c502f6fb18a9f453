"""Energies of deforming bodies: value, gradient and Hessian, in closed form."""
