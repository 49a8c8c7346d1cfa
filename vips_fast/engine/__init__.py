"""The engine: one contract, one loop, one result, for all models."""
