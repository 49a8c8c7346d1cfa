"""The command ``vips-fast``. A command imports the numerical packages that it uses; others stay unloaded."""

from .main import main

__all__ = ["main"]
