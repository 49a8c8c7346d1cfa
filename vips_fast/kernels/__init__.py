"""The hand-optimised kernels behind a thin, checked Python interface."""
