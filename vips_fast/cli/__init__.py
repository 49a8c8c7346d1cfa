"""The command ``vips-fast``. Numerical packages are imported by the command that uses them, not before."""

from .main import main

__all__ = ["main"]
