"""Logistic regression by Opacus's DP-SGD (Yousefpour et al. 2021)."""

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.special import expit


class OpacusLogisticRegression:
    """A linear layer, trained by Opacus' optimizer, Poisson batches and accountant.

    ``tuned`` has the learning rate, the clip of a record's gradient and the number of steps. A step's share of the
    records is ``share``.
    """

    #: Learning rates, clips and steps to try, and the best of them by epsilon, on public data: `bench/auc.py`.
    GRID: ClassVar[tuple[tuple[float, float, int], ...]] = tuple(
        (rate, clip, steps) for rate in (1.0, 4.0, 16.0) for clip in (0.2, 1.0) for steps in (40, 160)
    )
    TUNED: ClassVar[dict[float, tuple[float, float, int]]] = {
        0.1: (16.0, 0.2, 160),
        0.3: (1.0, 1.0, 160),
        1.0: (4.0, 1.0, 160),
        3.0: (16.0, 1.0, 160),
    }

    def __init__(self, epsilon: float, delta: float, tuned: tuple[float, float, int], share: float = 0.1):
        self.epsilon, self.delta, self.tuned, self.share = epsilon, delta, tuned, share

    def fit(self, X: Any, y: np.ndarray) -> Self:
        """Fit to rows and labels 0 and 1."""
        import torch
        from opacus import PrivacyEngine

        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        rate, clip, steps = self.tuned
        epochs = round(steps * self.share)
        rows = torch.tensor(X.toarray() if sparse.issparse(X) else X, dtype=torch.float32)
        labels = torch.tensor(y, dtype=torch.float32)
        loader = torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(rows, labels), batch_size=max(1, round(self.share * len(y)))
        )
        layer = torch.nn.Linear(rows.shape[1], 1)
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        layer, optimizer, batches = PrivacyEngine().make_private_with_epsilon(
            module=layer,
            optimizer=torch.optim.SGD(layer.parameters(), lr=rate),
            data_loader=loader,
            target_epsilon=self.epsilon,
            target_delta=self.delta,
            epochs=epochs,
            max_grad_norm=clip,
        )
        loss = torch.nn.BCEWithLogitsLoss()
        for _ in range(epochs):
            for some, truth in batches:
                optimizer.zero_grad()
                loss(layer(some)[:, 0], truth).backward()
                optimizer.step()
        weight, bias = (p.detach().numpy().astype(float).ravel() for p in layer.parameters())
        self._weights = weight, float(bias[0])
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Compute the logits of rows."""
        weight, bias = self._weights
        return np.asarray(X @ weight).ravel() + bias

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict probabilities of the two labels."""
        p = expit(self.decision_function(X))
        return np.column_stack([1 - p, p])
