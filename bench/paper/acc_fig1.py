"""Accountants' paper, Figure 1: epsilon over the epochs of training a convolutional network on MNIST by DP-SGD."""

import numpy as np
from acc_common import BATCH, DELTA, EPOCHS, NOISE, Q, bayesian_v1, exact, generic, moments, steps_of
from common import DATA, STYLES, listed, markdown, order, save, subplots
from peers.mnist import read_idx
from peers.theorems import BayesianAccountant

TITLE = "Accountants' paper, Figure 1: ε over the epochs of DP-SGD on MNIST"
NEEDS = ("mnist", "torch", "opacus")
#: Pairs of images a step for the Bayesian accountant, and its orders.
PAIRS, LAMBDAS = 16, (2, 4, 8, 12, 16, 24, 32)
#: Epochs that are run, of the printed 100, which take two hours: the accountants need no run for the others.
RUN = 30
#: Clip and learning rate of Abadi et al. 2016, whose setting the article calls very similar to its own.
CLIP, RATE = 4.0, 0.05

ACCOUNTANTS = {"moments": moments, "generic": generic, "exact": exact}


def cells(scale):
    """Ours, with the accountants, and Opacus's: 30 of the 100 epochs, at scale 10 three."""
    return [dict(method=method, epochs=max(1, RUN // scale)) for method in ("vips_fast", "opacus")]


def load():
    """Load training images with labels, and test images with labels."""
    import torch
    from acc_network import images

    parts = [
        read_idx(DATA / "mnist" / f"{part}-{kind}-ubyte")
        for part in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    ]
    return [torch.as_tensor(p, dtype=torch.int64) if p.ndim == 1 else images(p) for p in parts]


def run(cell):
    """Epsilons and test accuracy at some epochs."""
    import torch

    torch.set_num_threads(1)
    at = sorted({round(e) for e in np.linspace(1, cell["epochs"], min(cell["epochs"], 20))})
    return (ours if cell["method"] == "vips_fast" else opacus)(at, *load())


def ours(at, X, y, X_test, y_test):
    """Run the package's loop, watched by the Bayesian accountant."""
    from acc_network import accuracy, network, train

    steps, epochs_of = steps_of(at[-1]), {steps_of(e): e for e in at}
    accountants = [BayesianAccountant(Q, NOISE * CLIP, steps, order) for order in LAMBDAS]
    squared, out = [0.0], dict(at=at, accuracy=[], bayesian=[], bayesian_v1=[])

    def see(distances):
        squared[0] += Q**2 * float((distances**2).mean()) / (2 * (NOISE * CLIP) ** 2)
        for accountant in accountants:
            accountant.step(distances)

    def callback(model, progress):
        if progress.step in epochs_of:
            out["accuracy"].append(accuracy(model.net, model.parameters(), X_test, y_test))
            best = min((a.guarantee(DELTA) for a in accountants), key=lambda g: g.epsilon_mu)
            out["bayesian"].append(best.epsilon_mu)
            out["bayesian_v1"].append(bayesian_v1(squared[0], DELTA))
            out["delta_mu"], out["order"] = best.delta_mu, best.order

    _, ledger = train(
        network(),
        X,
        y,
        batch=BATCH,
        noise=NOISE,
        clip=CLIP,
        rate=RATE,
        steps=steps,
        delta=DELTA,
        pairs=PAIRS,
        see=see,
        callback=callback,
    )
    for name, accountant in ACCOUNTANTS.items():
        out[name] = [accountant(Q, NOISE, steps_of(e), DELTA) for e in at]
    return out | dict(ledger=ledger.epsilon(DELTA), mean_square=squared[0] * 2 * NOISE**2 * CLIP**2 / Q**2 / steps)


def opacus(at, X, y, X_test, y_test):
    """Train in Opacus, with the same network, batches, noise, clip and steps."""
    import warnings

    import torch
    from acc_network import accuracy, network
    from opacus import PrivacyEngine
    from opacus.accountants import create_accountant
    from torch.utils.data import DataLoader, TensorDataset

    warnings.filterwarnings("ignore")
    net, engine = network(), PrivacyEngine()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    net, optimizer, batches = engine.make_private(
        module=net,
        optimizer=optimizer,
        data_loader=DataLoader(TensorDataset(X, y), batch_size=BATCH),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
    )
    out = dict(at=at, accuracy=[])
    for epoch in range(1, at[-1] + 1):
        for images, labels in batches:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()
        if epoch in at:
            out["accuracy"].append(accuracy(net, dict(net.named_parameters()), X_test, y_test))
    (rate, steps) = engine.accountant.history[0][1:]
    out["steps"] = steps
    for name in ("rdp", "prv"):
        accountant = create_accountant(name)
        accountant.history = engine.accountant.history
        out[name] = float(accountant.get_epsilon(DELTA))
    return out | dict(exact=exact(rate, NOISE, steps, DELTA))


def orders(rows):
    """Check the accountants' order at each epoch."""
    (mine,) = (row for row in rows if row["method"] == "vips_fast")

    def above(greater, less):
        found = {f"epoch {e}": a > b for e, a, b in zip(mine["at"], mine[greater], mine[less], strict=True)}
        if greater in ACCOUNTANTS and less in ACCOUNTANTS:
            whole = [ACCOUNTANTS[name](Q, NOISE, steps_of(EPOCHS), DELTA) for name in (greater, less)]
            found[f"epoch {EPOCHS}"] = whole[0] > whole[1]
        return found

    return [
        order("moments accountant above generic accountant", above("moments", "generic")),
        order("generic accountant above Bayesian accountant", above("generic", "bayesian_v1")),
        order("the printed generic ε is at least the exact ε", above("generic", "exact")),
    ]


def report(rows):
    """See the runner."""
    (mine,) = (row for row in rows if row["method"] == "vips_fast")
    (other,) = (row for row in rows if row["method"] == "opacus")
    epochs = mine["epochs"]
    whole = {name: f(Q, NOISE, steps_of(EPOCHS), DELTA) for name, f in ACCOUNTANTS.items()}
    table = [
        ["moments accountant (λ ≤ 32)", 2.18, mine["moments"][-1], whole["moments"]],
        ["generic accountant as printed, NOT PRIVATE", 1.62, mine["generic"][-1], whole["generic"]],
        ["Bayesian accountant as printed, NOT PRIVATE", 0.95, mine["bayesian_v1"][-1], None],
        ["Bayesian accountant, later form, NOT PRIVATE", None, mine["bayesian"][-1], None],
        ["exact tight ε (the ledger's)", None, mine["ledger"], whole["exact"]],
    ]
    networks = [
        ["vips_fast", mine["accuracy"][-1], f"{mine['ledger']:.4f} (PLD)", mine["exact"][-1]],
        ["Opacus", other["accuracy"][-1], f"{other['rdp']:.4f} (RDP), {other['prv']:.4f} (PRV)", other["exact"]],
    ]
    for line, row, steps in zip(networks, (mine, other), (steps_of(epochs), other["steps"]), strict=True):
        line.append(1e3 * row["seconds"] / steps)
    return f"""{epochs} of the printed 100 epochs are run. Batches of {BATCH} of 60,000, noise multiplier {NOISE:g},
clip {CLIP:g}, δ = 10⁻⁵, Poisson sampling, add or remove one image; two convolutions and two dense layers. The Bayesian
figures are about a random image, of {PAIRS} pairs a step, and hold for nobody in particular (Table 1). Our gradients
are PyTorch's, whose bits may depend on the batch: a taint. Opacus's noise is of single precision unless `secure_mode`
is on.

{listed(orders(rows))}

{markdown(["accountant", "printed, 100 epochs", f"here, {epochs} epochs", "here, 100 epochs"], table)}

{markdown(["", "test accuracy", "ε by its accountants", "exact ε", "processor ms a step"], networks)}"""


def draw(rows, folder):
    """See the runner."""
    (mine,) = (row for row in rows if row["method"] == "vips_fast")
    (other,) = (row for row in rows if row["method"] == "opacus")
    figure, (left, right) = subplots(1, 2, figsize=(10, 4))
    names = dict(
        moments="moments accountant",
        generic="generic, as printed",
        bayesian_v1="Bayesian, as printed",
        bayesian="Bayesian, later form",
        exact="exact",
    )
    for (what, name), style in zip(names.items(), STYLES):
        left.plot(mine["at"], mine[what], label=name, markersize=4, **style)
    for row, style in zip((mine, other), STYLES):
        right.plot(row["at"], row["accuracy"], label=row["method"], markersize=4, **style)
    left.set_ylabel("ε at δ = 1e-5, add or remove one image")
    left.set_ylim(bottom=0)
    right.set_ylabel("test accuracy")
    for axis in (left, right):
        axis.set_xlabel("epochs")
        axis.xaxis.get_major_locator().set_params(integer=True)
    figure.legend(*left.get_legend_handles_labels(), loc="lower center", ncol=5, fontsize=8)
    right.legend()
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    return save(figure, folder, "acc_fig1")
