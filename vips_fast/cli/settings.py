"""Arguments of an estimator from names and values, those of its ``options`` among them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..models.estimator import PrivateEstimator


def setting_names(cls: type[PrivateEstimator]) -> tuple[set[str], set[str]]:
    """Names of an estimator's parameters, and of the fields of its ``options``."""
    options = cls._options_type
    return set(cls._parameter_names()), set() if options is None else {field.name for field in fields(options)}


def estimator_arguments(cls: type[PrivateEstimator], values: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's arguments for some settings.

    Parameters
    ----------
    cls : estimator class
    values : mapping
        Keys are parameters, fields of ``options``, or the latter as ``options.name``.

    Raises
    ------
    ValueError
        If a key is neither.
    """
    parameters, fields_of_options = setting_names(cls)
    arguments: dict[str, Any] = {}
    options: dict[str, Any] = {}
    for name, value in values.items():
        short = name.removeprefix("options.")
        if name in parameters:
            arguments[name] = value
        elif short in fields_of_options:
            options[short] = value
        else:
            raise ValueError(
                f"{name!r} is not a setting of {cls.__name__}: expected one of "
                f"{', '.join(sorted(parameters | fields_of_options))}"
            )
    if options:
        assert cls._options_type is not None
        arguments["options"] = cls._options_type(**options)
    return arguments


def given_settings(cls: type[PrivateEstimator], args: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of an estimator's settings, by their names."""
    parameters, fields_of_options = setting_names(cls)
    known = parameters | fields_of_options
    return {name: value for name, value in vars(args).items() if name in known and value is not None}
