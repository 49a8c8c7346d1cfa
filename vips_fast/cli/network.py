"""Networks of binary images: ``fit sbn`` and ``plot``."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .arguments import Kind, add_fit_groups, add_model, command, ending, integer, whole
from .fit import Job, run_fit
from .folder import load_model, refuse
from .output import output_file, read_array
from .records import sharded

if TYPE_CHECKING:
    import numpy as np


def add(commands: Any, models: Any) -> None:
    parser = command(models, "sbn", fit, "fit a network of binary images and write it to a folder")
    parser.add_argument("input", metavar="INPUT", help="IDX images (plain or .gz), a matrix as .npy, or shards")
    what = "a pixel is on from this value up, default 1 (128: upper half of a byte)"
    parser.add_argument("--threshold", type=integer, default=1, help=what)
    model, _, run = add_fit_groups(parser)
    model.add_argument("--components", dest="n_components", type=whole, required=True, help="number of hidden units")
    run.add_argument("--bound", help="jaakkola, bohning or pg; not with --paper")

    parser = command(commands, "plot", plot, "draw a network's weights or reconstructions")
    add_model(parser, "fit sbn")
    parser.add_argument(
        "--out", metavar="FILE", type=ending(".png", ".pdf", ".svg"), required=True, help="a .png, .pdf or .svg file"
    )
    what = "show these records and their reconstructions, which are as private as they, instead of the weights"
    parser.add_argument("--images", metavar="INPUT", help=what)
    parser.add_argument("--count", type=whole, default=10, help="records of --images that are shown, default 10")
    parser.add_argument("--threshold", type=integer, default=1, help="as in fit sbn")
    shape = Kind(lambda text: tuple(map(int, text.split("x"))), lambda v: len(v) == 2 and min(v) > 0, "such as 28x28")
    parser.add_argument("--shape", metavar="HxW", type=shape, help="height and width of an image, default square")


def read_images(path: str, threshold: int) -> "np.ndarray":
    """Binary records from a file."""
    from ..data import binarize, read_idx

    images = read_array(path, "biuf") if Path(path).suffix == ".npy" else read_idx(path)
    if images.ndim < 2 or len(images) == 0:
        raise ValueError(f"{path}: expected images, one in each row or slice; got shape {images.shape}")
    return binarize(images, threshold)


def read_new(args: Namespace, model: Any) -> Any:
    """Read new binary records for a fitted network."""
    refuse(args, "vocab", "format", "features", "text")
    shards = sharded(args)
    return read_images(args.input, 1 if args.threshold is None else args.threshold) if shards is None else shards


def fit(args: Namespace) -> int:
    """Fit a sigmoid belief network."""
    from ..models.sbn import SigmoidBeliefNetwork

    if args.paper and args.bound is not None:
        raise ValueError(f"--bound {args.bound}: leave it out with --paper, which has a bound of its own")

    def read(*_: Any) -> Job:
        shards = sharded(args)
        if shards is not None:
            return Job((shards,), groups=shards.groups)
        return Job((read_images(args.input, args.threshold),))

    return run_fit(args, SigmoidBeliefNetwork, read)


def plot(args: Namespace) -> int:
    """Draw a fitted network's weights, or records and their reconstructions."""
    from ..models.plots import plot_reconstructions
    from ..models.sbn import SigmoidBeliefNetwork

    model = load_model(args.model, SigmoidBeliefNetwork, "fit sbn", args.verify_key)
    with output_file(args.out) as part:
        if args.images is None:
            figure = model.plot(args.shape)
        else:
            records = read_images(args.images, args.threshold)[: args.count]
            figure = plot_reconstructions(model, records, args.shape)
        figure.savefig(part)
    print(f"Written to {args.out}.")
    return 0
