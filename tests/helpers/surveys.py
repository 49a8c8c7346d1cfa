"""A simulated survey, with its schema and true effects."""

import numpy as np
from scipy.special import expit

SCHEMA = """[columns.age]
kind = "number"
low = 18
high = 90
[columns.sex]
kind = "binary"
values = ["woman", "man"]
[columns.smoker]
kind = "binary"
values = ["no", "yes"]
[columns.region]
kind = "category"
values = ["north", "south", "east", "west"]
reference = "east"
[columns.state]
kind = "binary"
values = ["well", "ill"]
"""
EFFECTS = {"age": 0.04, "sex=man": 0.2, "smoker=yes": 0.5, "region=north": 0.3, "region=south": 0.6, "region=west": 0.0}


def survey(seed: int, n: int = 6000) -> dict[str, np.ndarray]:
    """Draw a survey, column by column."""
    rng = np.random.default_rng(seed)
    table = {
        "age": rng.integers(18, 91, n),
        "sex": rng.choice(["woman", "man"], n),
        "smoker": rng.choice(["no", "yes"], n, p=[0.7, 0.3]),
        "region": rng.choice(["north", "south", "east", "west"], n),
    }
    logit = 0.04 * (table["age"] - 60) - 0.5
    for name, effect in list(EFFECTS.items())[1:]:
        column, _, value = name.partition("=")
        logit = logit + effect * (table[column] == value)
    return {**table, "state": np.where(rng.random(n) < expit(logit), "ill", "well")}
