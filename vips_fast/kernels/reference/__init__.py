"""Pure numpy twins of the kernels: same names, same argument order, float64, no tricks."""
