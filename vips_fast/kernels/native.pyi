"""The compiled bindings; their declarations are generated with the kernels'."""

from typing import Any

def __getattr__(name: str) -> Any: ...
