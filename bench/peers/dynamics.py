"""EM for a linear dynamical system by whole normal distributions. No recursion, no clip, no privacy."""

import numpy as np

Array = np.ndarray


def prior(transitions: Array, noise: Array, first: Array, length: int) -> Array:
    """Covariance of all states of a sequence, (T k, T k)."""
    k = len(first)
    blocks = np.zeros((length, length, k, k))
    for t in range(length):
        blocks[t, t] = first if t == 0 else transitions @ blocks[t - 1, t - 1] @ transitions.T + noise
        for s in range(t + 1, length):
            blocks[s, t] = np.linalg.matrix_power(transitions, s - t) @ blocks[t, t]
            blocks[t, s] = blocks[s, t].T
    return blocks.transpose(0, 2, 1, 3).reshape(length * k, length * k)


def log_density(Y: Array, transitions: Array, noise: Array, loadings: Array, variances: Array, first: Array) -> float:
    """Compute the mean log-density of an output vector, in nats. Y is (n, T, d)."""
    n, length, d = Y.shape
    C = np.kron(np.eye(length), loadings)
    spread = C @ prior(transitions, noise, first, length) @ C.T + np.diag(np.tile(variances, length))
    rows = Y.reshape(n, -1)
    fit = (rows * np.linalg.solve(spread, rows.T).T).sum() / n
    return float(-0.5 * (np.linalg.slogdet(2 * np.pi * spread)[1] + fit) / length)


def em(
    Y: Array, transitions: Array, noise: Array, loadings: Array, variances: Array, first: Array, n_steps: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Run EM from a start; return A, Q, C, r and P. Y is (n, T, d)."""
    n, length, d = Y.shape
    k = len(first)
    for _ in range(n_steps):
        C, inverse = np.kron(np.eye(length), loadings), np.tile(1 / variances, length)
        covariance = np.linalg.inv(np.linalg.inv(prior(transitions, noise, first, length)) + (C.T * inverse) @ C)
        means = Y.reshape(n, -1) @ (covariance @ (C.T * inverse)).T
        second = (means.T @ means / n + covariance).reshape(length, k, length, k)
        states = sum(second[t, :, t] for t in range(length))
        step = sum(second[t, :, t - 1] for t in range(1, length))
        before, after = states - second[-1, :, -1], states - second[0, :, 0]
        cross = np.einsum("ntd,ntk->dk", Y, means.reshape(n, length, k)) / n
        transitions = step @ np.linalg.inv(before)
        noise = (after - transitions @ step.T) / (length - 1)
        loadings = cross @ np.linalg.inv(states)
        variances = ((Y**2).sum(axis=(0, 1)) / n - (loadings * cross).sum(axis=1)) / length
        first = second[0, :, 0]
    return transitions, noise, loadings, variances, first
