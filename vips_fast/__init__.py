"""Differentially private variational Bayes (VIPS)."""
