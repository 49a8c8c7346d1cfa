"""The command ``vips-fast``: arguments in, files and text out; nothing else imports it.

`main` turns errors into exit codes; a module for each family of commands adds its arguments and runs them; `fit` is
the one fit–progress–save of all models. Numerical packages are imported by the command that uses them.
"""

from .main import main

__all__ = ["main"]
