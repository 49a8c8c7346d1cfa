"""A convolutional network on MNIST by DP-SGD in the package's own loop: its sampling, lattice, noise and ledger.

Gradients of single images are PyTorch's (`torch.func`), clipped, truncated and added as integers. PyTorch does not
guarantee that an image's gradient has the same bits in any company, so the runs are tainted. Their own ledger
states just the mechanism's epsilon on exact gradients.
"""

import math

import numpy as np
import torch
from acc_common import PairsBackend
from torch import nn
from torch.func import functional_call, grad, vmap

from vips_fast.engine.backend import Threads
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.loop import run
from vips_fast.engine.model import Model
from vips_fast.engine.plan import RunPlan
from vips_fast.engine.sampling import PoissonSampler, SystemRandomness
from vips_fast.mechanisms import GaussianMechanism

TAINT = "gradients of a minibatch are computed together in single precision, by kernels whose bits may differ"


def network(seed=0):
    """Two convolutions and two dense layers, 26,010 parameters."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(16, 32, 4),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.Tanh(),
        nn.Linear(32, 10),
    )


def images(X):
    """Grey values of records (n, 784) as (n, 1, 28, 28), centered."""
    return (torch.as_tensor(X, dtype=torch.float32).reshape(-1, 1, 28, 28) / 255 - 0.1307) / 0.3081


def accuracy(net, parameters, X, y):
    """Share of the images that are recognized."""
    with torch.no_grad():
        found = torch.cat([functional_call(net, parameters, (part,)).argmax(1) for part in X.split(1000)])
    return float((found == y).float().mean())


class Images:
    """The engine's records: images and labels, in blocks that fit the cache."""

    usable = None

    def __init__(self, X, y):
        self.X, self.y, self.n_rows = X, y, len(y)

    def edges(self, rows):
        """See `vips_fast.engine.model.Records`."""
        return np.append(np.arange(0, len(rows), 64), len(rows))

    def block(self, rows):
        """Images and labels."""
        return self.X[rows], self.y[rows]

    def subset(self, rows):
        """See `vips_fast.engine.model.Records`."""
        return Images(*self.block(rows))


class NetworkModel(Model):
    """Compute gradients of the cross-entropy, clipped to an L2 norm of ``clip``.

    That is the most that an image moves the sum.

    A contribution is cut to the lattice toward zero, and its norm checked in whole numbers, which doubles hold exactly.
    The squares of its entries add up to at most (clip / spacing)^2 < 2^53.
    """

    def __init__(self, net, clip, learning_rate):
        self.net, self.clip, self.rate = net, clip, learning_rate
        self.names = {name: p.shape for name, p in net.named_parameters()}
        self.theta = torch.cat([p.detach().reshape(-1) for p in net.parameters()]).double()
        self.shape = (len(self.theta),)

        def loss(parameters, x, y):
            return nn.functional.cross_entropy(functional_call(net, parameters, (x[None],)), y[None])

        self._gradients = vmap(grad(loss), in_dims=(None, 0, 0))

    def sensitivity(self, relation):
        """C for adding or removing a record, 2 C for replacing one."""
        return self.clip if relation == "add_remove" else 2 * self.clip

    def prepare(self, mechanism, sampler):
        """Take the lattice."""
        self.spacing = mechanism.spacing
        if (self.clip / self.spacing) ** 2 >= 2**53:
            raise ValueError("spacing: expected one at which a squared norm is below 2^53")

    def parameters(self):
        """Return the network's parameters by name, single precision."""
        parts = self.theta.float().split([math.prod(shape) for shape in self.names.values()])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.names.items(), parts)}

    def clipped(self, block):
        """Compute a block's gradients and the factors that clip them.

        An array (n, size) a parameter, and factors (n, 1).
        """
        X, y = block
        parts = [part.reshape(len(y), -1) for part in self._gradients(self.parameters(), X, y).values()]
        norm = sum((part * part).sum(1, keepdim=True) for part in parts).sqrt()
        # Single precision may be off by 1e-6: no norm is to pass the bound by it.
        factor = torch.clamp(self.clip / norm, max=1.0) * (1 - 1e-5)
        return parts, torch.where(norm.isfinite(), factor, 0.0)

    def contribute(self, block, words, out, scratch):
        """See `Model.contribute`."""
        parts, factor = self.clipped(block)
        factor = factor.double() / self.spacing
        units = [part.double().mul_(factor).nan_to_num_(0.0).trunc_() for part in parts]
        size = sum((part * part).sum(1) for part in units)
        kept = (size <= math.floor((self.clip / self.spacing) ** 2)).double()
        out += torch.cat([kept @ part for part in units]).numpy().astype(np.int64)

    def distances(self, block):
        """Compute L2 distances between the contributions of the halves of a block."""
        parts, factor = self.clipped(block)
        half = len(factor) // 2
        pairs = [(part * factor).split(half) for part in parts]
        return sum((a - b).square_().sum(1) for a, b in pairs).sqrt().double().numpy()

    def update(self, release):
        """Take one step down the mean gradient."""
        self.theta -= self.rate * torch.from_numpy(release.values)

    def state(self):
        """See `Model.state`."""
        return {"theta": self.theta.numpy().copy()}

    def restore(self, state):
        """See `Model.restore`."""
        self.theta = torch.as_tensor(state["theta"]).clone()

    def result(self):
        """Return the parameters."""
        return {"theta": self.theta.numpy().copy()}


def train(net, X, y, *, batch, noise, clip, rate, steps, delta, pairs=0, see=None, callback=None):
    """Run `NetworkModel` privately; return the model and its ledger."""
    model = NetworkModel(net, clip, rate)
    sampler = PoissonSampler(len(y), batch)
    mechanism = GaussianMechanism(noise, model.sensitivity(sampler.relation), model.clip)
    model.prepare(mechanism, sampler)
    plan = RunPlan(sampler, mechanism, steps, delta, taints=(TAINT,))
    ledger, backend = Ledger(), PairsBackend(pairs, NetworkModel.distances, see) if pairs else Threads(1)
    tell = None if callback is None else lambda progress: callback(model, progress)
    run(model, Images(X, y), plan, ledger, SystemRandomness(), backend, callback=tell)
    return model, ledger
