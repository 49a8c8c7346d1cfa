"""The commands of ``vips-fast`` for models of binary images: ``fit sbn``, ``plot`` and their part of ``transform``."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path

from . import cli

__all__ = ["add_fit_sbn", "add_plot", "fit_sbn", "is_network", "load_with_records", "plot"]


def add_fit_sbn(parser):
    """Arguments of ``vips-fast fit sbn``."""
    parser.add_argument("input", metavar="INPUT", help="IDX images (plain or .gz), or a matrix as .npy")
    parser.add_argument(
        "--threshold", type=int, default=1, help="a pixel is on from this value up, default 1 (128: upper half of a byte)"
    )
    out = parser.add_argument_group("model")
    out.add_argument("--components", type=cli._whole, required=True, help="number of hidden units")
    out.add_argument("--out", metavar="DIR", required=True, help="folder to write")
    out.add_argument("--force", action="store_true", help="replace a model that is there")
    out.add_argument("--bound", help="jaakkola, bohning or pg")
    cli.add_privacy_and_run(parser)


def add_plot(parser):
    """Arguments of ``vips-fast plot``."""
    parser.add_argument("model", metavar="DIR", help="folder written by fit sbn")
    parser.add_argument("--out", metavar="FILE", required=True, help="a .png file")
    parser.add_argument(
        "--images", metavar="INPUT",
        help="show these records and their reconstructions, which are as private as the records, instead of the weights",
    )
    parser.add_argument("--count", type=cli._whole, default=10, help="records of --images that are shown, default 10")
    parser.add_argument("--threshold", type=int, default=1, help="as in fit sbn")
    parser.add_argument("--shape", metavar="HxW", help="height and width of an image, default square")


def _read(path, threshold):
    """Binary records from a file."""
    import numpy as np

    from .data import binarise, read_idx

    if Path(path).suffix == ".npy":
        try:
            images = np.load(path, allow_pickle=False)
        except (ValueError, EOFError):
            raise cli.CommandError(f"{path}: not a .npy file of numbers") from None
        if images.dtype.kind not in "biuf":
            raise cli.CommandError(f"{path}: not a .npy file of numbers")
    else:
        images = read_idx(path)
    if images.ndim < 2 or len(images) == 0:
        raise cli.CommandError(f"{path}: expected images, one a row or a slice; got shape {images.shape}")
    return binarise(images, threshold)


def fit_sbn(args):
    """Fit a sigmoid belief network and write it to a folder."""
    from vips_fast import SigmoidBeliefNetwork, report

    settings = dict(n_components=args.components, **cli._budget(args))
    for name, value in (
        ("bound", args.bound), ("sampling", args.sampling), ("neighbors", args.neighbors), ("n_records", args.records),
        ("batch_size", args.batch_size), ("n_steps", args.steps), ("n_jobs", args.jobs), ("random_state", args.seed),
    ):
        if value is not None:
            settings[name] = value
    model = SigmoidBeliefNetwork(**settings)
    with cli._output_folder(Path(args.out), args.force, marks=("model.npz", cli._PRIVACY)) as folder:
        Y = _read(args.input, args.threshold)
        with cli._Progress(model.n_steps, "fit", args.quiet) as progress:
            model.set_params(callback=progress)
            model.fit(Y)
        model.set_params(callback=None)
        model.save(folder)
        statement = report.paragraph(model.privacy_.statement())
        (folder / cli._PRIVACY).write_text(statement + "\n", "utf-8")
    print(statement)
    print(f"Written to {args.out}.")
    return 0


def is_network(folder) -> bool:
    """Whether a folder says that it holds a belief network."""
    try:
        return json.loads((Path(folder) / "model.json").read_text("utf-8"))["model"] == "SigmoidBeliefNetwork"
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _load(folder):
    """The network in a folder."""
    from vips_fast import SigmoidBeliefNetwork

    if not Path(folder).is_dir():
        raise cli.CommandError(f"{folder}: no such folder; expected one written by vips-fast fit sbn")
    try:
        return SigmoidBeliefNetwork.load(folder)
    except (KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        raise cli.CommandError(f"{folder} holds no readable model") from None


def load_with_records(args):
    """For ``vips-fast transform``: the network and the binary records."""
    for option in ("vocab", "format", "features"):
        if getattr(args, option) is not None:
            raise cli.CommandError(f"--{option} is for topic models; {args.model} holds a network")
    return _load(args.model), _read(args.input, 1 if args.threshold is None else args.threshold)


def plot(args):
    """Draw a fitted network's weights, or records and their reconstructions."""
    from vips_fast.images import dictionary_grid, reconstruction_grid, save_png, square_shape

    if Path(args.out).suffix != ".png":
        raise cli.CommandError(f"--out {args.out}: expected a name that ends in .png")
    model = _load(args.model)
    if args.shape is None:
        shape = square_shape(model.n_features_in_)
    else:
        try:
            shape = tuple(int(side) for side in args.shape.split("x"))
            if len(shape) != 2 or min(shape) < 1:
                raise ValueError
        except ValueError:
            raise cli.CommandError(f"--shape {args.shape}: expected HEIGHTxWIDTH, such as 28x28") from None
    if args.images is None:
        grid = dictionary_grid(model, shape)
    else:
        grid = reconstruction_grid(model, _read(args.images, args.threshold)[: args.count], shape)
    with cli._output_file(Path(args.out)) as file:
        save_png(grid, file)
    print(f"Written to {args.out}.")
    return 0
