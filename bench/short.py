"""Time fits of 500 short documents, beside another checkout's.

The figure is the processor time that is not the E-step.

    python bench/short.py ../other/.venv/bin/python

Both interpreters fit in turn, A B A B …, each in a process of its own. So neither the machine's drift nor other
work tells them apart. The figure is the median of the ratios ours / other: of the first fit with the imports, and of
later fits.
"""

import inspect
import json
import statistics
import subprocess
import sys
import time
import warnings
from typing import Any

#: Public settings of the fits by name, beside epsilon = 1 and ten topics.
KINDS = {
    "default": {},
    "minibatches of 50": {"batch_size": 50},
    "default, as short as they are": {"doc_length": 10},
    "minibatches of 50, as short as they are": {"batch_size": 50, "doc_length": 10},
}
N_DOCS, LENGTH, N_WORDS = 500, 10, 500
FITS, PROCESSES = 7, 3


def documents() -> Any:
    """Counts of the words of random documents."""
    import numpy as np

    share = 1.0 / np.arange(10, 10 + N_WORDS)
    return np.random.default_rng(0).multinomial(LENGTH, share / share.sum(), N_DOCS)


def serve() -> None:
    """Fit for each input line, and answer with processor seconds.

    The first include the imports.

    Each epsilon differs a little, so that no fit finds the noise of the one before."""
    for number, line in enumerate(sys.stdin):
        from vips_fast import LatentDirichletAllocation

        counts = documents()
        known = inspect.signature(LatentDirichletAllocation).parameters
        name = "epsilon" if "epsilon" in known else "target_epsilon"  # as older checkouts call it
        model = LatentDirichletAllocation(10, n_jobs=1, **{name: 1.0 + 1e-6 * number}, **json.loads(line))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing can be learned from so few
            start = time.process_time() if number else 0.0
            model.fit(counts)
        print(time.process_time() - start, flush=True)


class Served:
    """An interpreter that runs a script's fits on demand."""

    def __init__(self, python: str, script: str, *args: str):
        command = [python, script, "--serve", *args]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question: Any) -> Any:
        """Have it fit, and read its answer."""
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait()


def main(other: str) -> None:
    """Print the table."""
    print("| fit | ours, ms | other, ms | ratio |\n| --- | --- | --- | --- |")
    for name, settings in KINDS.items():
        rounds = []
        for _ in range(PROCESSES):
            both = [Served(python, __file__) for python in (sys.executable, other)]
            rounds.append([[one.ask(settings) for one in both] for _ in range(1 + FITS)])
            for one in both:
                one.end()
        later = [pair for fits in rounds for pair in fits[1:]]
        for what, pairs in (("the first, with imports", [fits[0] for fits in rounds]), ("later ones", later)):
            ours, theirs = (1e3 * statistics.median(times) for times in zip(*pairs))
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"| {name}, {what} | {ours:.1f} | {theirs:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main(sys.argv[1])
