"""Encode tables as numbers by a public schema, as scikit-learn's transformers do."""

import os
from typing import Any, Self, cast

import numpy as np
from scipy import sparse

from .frames import named_columns, set_output, to_frame
from .records import read_batches
from .schema import Schema
from .types import Names


class ColumnEncoder:
    """Encodes tables by a public `Schema`; nothing is learned from their rows.

    It stands before an estimator, by itself or in a ``Pipeline``. Columns are found by name, in any order. As it learns
    nothing it spends nothing, and the encoding of a row does not depend on other rows, so that neighbors stay
    neighbors.

    ``schema`` is a `Schema` or the path of one; columns of other names stay as they are. A cell that the schema refuses
    becomes NaN, which the estimator's own ``invalid`` settles, or with ``invalid="raise"`` a ValueError.
    ``feature_names_in_`` are the names of the table's columns in `fit`.

    Examples
    --------
    >>> from vips_fast import ColumnEncoder
    >>> from vips_fast.data import Schema
    >>> schema = Schema.parse('''
    ... [columns.age]
    ... kind = "number"
    ... low = 0
    ... high = 100
    ... [columns.work]
    ... kind = "category"
    ... values = ["state", "private"]
    ... ''')
    >>> encoder = ColumnEncoder(schema).set_params(invalid="nan")
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'work=state', 'work=private']
    >>> encoder.fit_transform({"age": [50, 100], "work": ["state", "private"]}).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.]])
    >>> encoder.set_output(transform="pandas").fit({"age": [1], "work": ["state"]}).transform(
    ...     {"work": ["state"], "age": [0]}
    ... ).shape
    (1, 3)
    """

    def __init__(self, schema: Schema | str | os.PathLike[str], invalid: str = "nan"):
        self.schema, self.invalid = schema, invalid

    def get_params(self, deep: bool = True) -> dict[str, object]:
        """Constructor arguments by name."""
        return {"schema": self.schema, "invalid": self.invalid}

    def set_params(self, **params: object) -> Self:
        """Set constructor arguments; returns the encoder. ValueError for another name."""
        for name, value in params.items():
            if name not in self.get_params():
                raise ValueError(f"{name!r} is not a parameter of ColumnEncoder: expected schema or invalid")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = str(self.schema) if not isinstance(self.schema, Schema) else f"<{len(self.schema.columns)} columns>"
        return f"ColumnEncoder({shown}, invalid={self.invalid!r})"

    @property
    def schema_(self) -> Schema:
        """The schema, read from its file if it is a path."""
        return self.schema if isinstance(self.schema, Schema) else Schema.load(self.schema)

    @property
    def row_norm(self) -> float:
        """The largest L2 norm of an encoded row, a public number."""
        return self.schema_.row_norm

    def fit(self, X: object, y: object = None) -> Self:
        """Check that X has the schema's columns; its rows are not read.

        X is a frame of pandas or polars, a pyarrow table or a mapping of column names to cells; y is not used.
        """
        names = named_columns(X)
        if names is None:
            raise TypeError(f"X is a {type(X).__name__}: expected a table with named columns")
        self.schema_.check_columns(names)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: object) -> sparse.csr_array:
        """Encode a table.

        Returns float64 CSR of shape (n, n_features), or a frame after `set_output`. Raises ValueError if a column is
        missing, or with ``invalid="raise"`` a cell is refused; row and column are named, no cell.
        """
        schema, parts, done = self.schema_, [], 0
        for batch in read_batches(X, schema.names):
            n = len(next(iter(batch.values())))
            lines = range(done, done + n)
            parts.append(schema.encode(batch, invalid=self.invalid, where="X: row", lines=lines))
            done += n
        none = sparse.csr_array((0, len(schema.feature_names)))
        matrix: Any = sparse.vstack(parts, format="csr") if parts else none
        # For messages of the estimator behind it.
        matrix.encoded_from = [column.name for column in schema.columns for _ in column.features]
        return to_frame(self, matrix, X)

    def fit_transform(self, X: object, y: object = None) -> sparse.csr_array:
        """`fit`, then `transform`."""
        return self.fit(X).transform(X)

    def get_feature_names_out(self, input_features: object = None) -> Names:
        """Name the encoded columns: a number's own name, or "name=value"."""
        return np.array(self.schema_.feature_names, dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose the output of `transform`: "default" (CSR), "pandas" or "polars"."""
        return cast(Self, set_output(self, transform))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False, categorical=True, string=True),
            requires_fit=False,
        )
