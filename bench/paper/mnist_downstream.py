"""Classifiers trained on private samples of MNIST.

A `ClassConditionalNetwork` is fitted to the 60,000 training images, binarized above 0, with their labels; 2,000 records
of each class are drawn from it, and classifiers that see nothing else are tested on the 10,000 test images, binarized
likewise. Everything after the fit is post-processing. The settings were chosen on 10,000 of the training images.
"""

import functools
import statistics
from pathlib import Path

import numpy as np
from common import DATA, markdown, save, subplots
from peers.mnist import load_mnist

from vips_fast import ClassConditionalNetwork

TITLE = "Classifiers of samples: MNIST, a network for each class"
NEEDS: tuple[str, ...] = ("mnist", "sklearn", "torch")
DELTA, STEPS = 1e-5, 6
#: None is without privacy.
EPSILONS = (0.5, 1.0, 10.0, None)
#: Hidden units of each class.
COMPONENTS = 20
#: Records drawn of each class, and images of the picture.
DRAWN, SHOWN = 2_000, 10
REAL = "real images"
CLASSIFIERS = {
    "logistic": "logistic regression",
    "mlp": "MLP",
    "cnn": "CNN",
    "shifted": "CNN, shifted images",
    "networks": "the networks",
}
#: Dockhorn, Cao, Vahdat & Kreis (2023), Differentially private diffusion models, table 1, in per cent, delta = 10^-5:
#: method, epsilon, logistic regression, MLP, CNN.
PUBLISHED = (
    ("PEARL", 0.2, 76.2, 77.1, 77.6),
    ("DPDM", 0.2, 81.0, 81.7, 86.3),
    ("PEARL", 1, 76.0, 79.6, 78.2),
    ("DPDM", 1, 86.7, 91.6, 95.3),
    ("DP-CGAN", 10, 60.0, 60.0, 63.0),
    ("PEARL", 10, 76.5, 78.3, 78.8),
    ("GS-WGAN", 10, 79.0, 79.0, 80.0),
    ("DP-MERF", 10, 79.4, 78.3, 82.1),
    ("DP-Sinkhorn", 10, 82.8, 82.7, 83.2),
    ("DPDM", 10, 90.8, 94.8, 98.1),
)


def cells(scale: int) -> list[dict]:
    """List one part for each classifier, so that an unfinished one leaves only a gap in the table."""
    epsilons = EPSILONS if scale == 1 else EPSILONS[1:2]
    samples = [
        [dict(classifier=name, trained_on="samples", epsilon=e, run=run) for e in epsilons for name in CLASSIFIERS]
        for run in range(3 if scale == 1 else 1)
    ]
    real = [dict(classifier=n, trained_on=REAL, epsilon=None, run=0) for n in CLASSIFIERS if n != "networks"]
    return [*samples[0], *real, *sum(samples[1:], [])]


@functools.cache
def _images():
    return load_mnist(DATA / "mnist", 1)


@functools.lru_cache(1)
def _fitted(epsilon, run):
    """Return the model of a run, and its samples."""
    train, _, labels, _ = _images()
    privacy = dict(private=False) if epsilon is None else dict(epsilon=epsilon, delta=DELTA)
    model = ClassConditionalNetwork(COMPONENTS, n_steps=STEPS, random_state=run, classes=list(range(10)), **privacy)
    asked = np.repeat(np.arange(10), DRAWN)
    return model.fit(train, labels), *model.sample(len(asked), random_state=run, labels=asked)


def run(cell: dict) -> dict:
    """Accuracy of the classifier on all test images."""
    name, seed = cell["classifier"], cell["run"]
    train, test, labels, digits = _images()
    if cell["trained_on"] == REAL:
        return dict(accuracy=_accuracy(name, train, labels, test, digits, seed))
    model, Y, y = _fitted(cell["epsilon"], seed)
    if name != "networks":
        return dict(accuracy=_accuracy(name, Y, y, test, digits, seed))
    result = dict(accuracy=model.score(test, digits))
    if model.privacy_.private:
        result |= dict(proven=model.privacy_.epsilon, noise_multiplier=model.privacy_.noise_multiplier)
    if seed == 0:
        # One bit a pixel, as hexadecimal digits.
        result["images"] = np.packbits(np.concatenate([Y[y == c][: SHOWN // 5] for c in range(10)])).tobytes().hex()
    return result


def _accuracy(name, Y, y, test, digits, seed) -> float:
    """The linear classifier sees 200,000 images, the others 100,000, each of Y as often."""
    epochs = 100 * DRAWN / len(Y)
    if name == "logistic":
        from sklearn.linear_model import SGDClassifier

        linear = SGDClassifier(loss="log_loss", alpha=1e-3, max_iter=round(epochs), tol=None, random_state=seed)
        return float(linear.fit(Y.astype(np.float32), y).score(test.astype(np.float32), digits))
    import torch

    torch.set_num_threads(1)
    network, shown = _trained(name, Y, y, round(epochs / 2), seed), torch.as_tensor(test).reshape(-1, 1, 28, 28)
    with torch.no_grad():
        found = torch.cat([network(part.float()).argmax(1) for part in shown.split(2_000)]).numpy()
    return float((found == digits).mean())


def _trained(name, Y, y, epochs, seed):
    """784-256-10, or two convolutions of stride 2 with 16 and 32 channels and a layer of 128; Adam."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    if name == "mlp":
        network = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 10))
    else:
        network = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 49, 128),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(128, 10),
        )
    optimiser, loss = torch.optim.Adam(network.parameters(), 2e-3), nn.CrossEntropyLoss()
    images, labels = torch.as_tensor(Y).reshape(-1, 1, 28, 28), torch.as_tensor(np.asarray(y, dtype=np.int64))
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(200):
            part = images[batch].float()
            if name == "shifted":
                # By up to two pixels, the same for the images of a batch.
                part = torch.roll(part, torch.randint(-2, 3, (2,)).tolist(), dims=(2, 3))
            optimiser.zero_grad()
            loss(network(part), labels[batch]).backward()
            optimiser.step()
    return network.eval()


def _name(epsilon) -> str:
    return "ours, no privacy" if epsilon is None else f"**ours, ε = {epsilon:g}**"


def _percents(rows, trained_on, epsilon) -> list[str | None]:
    """Make a line's cells: mean and standard deviation, None without a run."""
    own = [row for row in rows if (row["trained_on"], row["epsilon"]) == (trained_on, epsilon)]
    return [_spread([100 * row["accuracy"] for row in own if row["classifier"] == name]) for name in CLASSIFIERS]


def _spread(values) -> str | None:
    if not values:
        return None
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}"


def report(rows: list[dict]) -> str:
    lines = [
        (method, f"{epsilon:g}", *(f"{value:.1f}" for value in found), None, None)
        for method, epsilon, *found in PUBLISHED
    ]
    for epsilon in EPSILONS:
        if any(row["epsilon"] == epsilon and row["trained_on"] == "samples" for row in rows):
            lines.append((_name(epsilon), epsilon and f"{epsilon:g}", *_percents(rows, "samples", epsilon)))
    lines.append((REAL, None, *_percents(rows, REAL, None)))
    runs = 1 + max(row["run"] for row in rows)
    table = markdown(("trained on samples of", "ε", *CLASSIFIERS.values()), lines)
    return f"""Per cent of MNIST's 10,000 test images, mean{" ± standard deviation" if runs > 1 else ""} of up to
{runs} run{"s"[: runs > 1]}; δ = 10⁻⁵, adding or removing a labeled image; {STEPS} releases of all images,
{COMPONENTS} hidden units a class. *CNN, shifted images* sees each batch moved by up to two pixels, which costs
nothing; *the networks* are the model's own `predict`. Ours are trained and tested on images binarized above 0. The
published ones are of grey images and come from Dockhorn et al. (2023), table 1. The quick form has one run at one ε.

{table}"""


def draw(rows: list[dict], folder: Path) -> list[Path]:
    pictured = {_name(row["epsilon"]).strip("*"): row["images"] for row in rows if row.get("images")}
    if not pictured:
        return []
    each = SHOWN // 5
    figure, axes = subplots(each * len(pictured), 10, figsize=(8, 0.7 * each * len(pictured)), squeeze=False)
    for place, (name, packed) in enumerate(pictured.items()):
        images = np.unpackbits(np.frombuffer(bytes.fromhex(packed), np.uint8)).reshape(10, each, 28, 28)
        for digit in range(10):
            for line in range(each):
                axis = axes[each * place + line, digit]
                axis.imshow(images[digit, line], cmap="gray_r", vmin=0, vmax=1)
                axis.set(xticks=[], yticks=[])
        axes[each * place, 0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    # Beside the table's CSV, not on the page.
    save(figure, folder, "mnist_downstream")
    return []  # the page shows the table only
