"""Every byte on disk: one log, one lock, one atomic writer, arrays."""
