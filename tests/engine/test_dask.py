"""Sums on the workers of a Dask cluster. The bits of one process, whatever becomes of workers."""

import io
import logging
import pickle
import re
import socket
import time
import types
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from cases import CASES, EVERY, counts
from clusters import KEY, keyed, kills, uncollected
from runs import bits

from vips_fast import LatentDirichletAllocation, cli
from vips_fast.data import Batch, write_shards
from vips_fast.engine import cluster
from vips_fast.engine.budget import Budget
from vips_fast.engine.cluster import ClusterError, DaskBackend, connected, identity
from vips_fast.models.lda.model import LdaModel
from vips_fast.models.vocabulary import PrivateVocabulary

pytestmark = pytest.mark.xdist_group("dask")


@pytest.fixture(scope="session")
def backend():
    with connected(n_workers=2, timeout=120) as backend:
        yield backend


@pytest.fixture
def parts(backend):
    def cut(n):
        backend.n_partitions = n
        return backend

    yield cut
    backend.n_partitions = None


def same(name, backend, groups=None, data=None, known=None, **options):
    """Fits a case here and there, and compares; gives the second. ``known`` keeps the fits of this process."""
    make, own = EVERY[name]
    data, options = own() if data is None else data, {"noise_multiplier": 2.0, **options}
    more, known = {} if groups is None else {"groups": groups}, {} if known is None else known
    here, there = (make(**options).set_unsafe(test_key=KEY) for _ in range(2))
    case = name, groups is None, repr(options)
    if case not in known:
        known[case] = bits(here.fit(*data, **more))
    there.fit(*data, backend=backend, **more)
    assert bits(there) == known[case] and len(there.ledger_) == there.n_steps_
    return there


POISSON, FIXED = (dict(sampling=s, batch_size=50) for s in ("poisson", "without_replacement"))
FEW, FULL = dict(sampling="poisson", batch_size=20), dict(sampling="full")
ALLOCATION = dict(sampling="random_allocation", batch_size=50, n_steps=4)
QUICK = [
    ("lda", 5, ALLOCATION),
    ("lda", 16, POISSON),
    ("logistic", 3, FIXED),
    ("network", 2, FULL),
    ("logistic-sparse", 1, POISSON),
]


@pytest.mark.parametrize("name, n, sampling", QUICK)
def test_the_same_bits_as_one_process(name, n, sampling, parts):
    same(name, parts(n), **sampling)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_same_bits_for_all_models_and_numbers_of_parts(workers):
    whose = np.random.default_rng(0).integers(0, 90, 200)
    with connected(n_workers=workers, timeout=300) as backend:
        for name in EVERY:
            known = {}
            for n in range(1, 17):
                backend.n_partitions = n
                same(name, backend, known=known, n_steps=2, **(FIXED, POISSON, FULL)[n % 3])
                if n % 5 == 1 and name != "logistic-paper":  # whose printed sensitivity is of one row
                    same(name, backend, groups=whose, known=known, n_steps=2, **FEW)


def test_persons_and_dropped_records(parts):
    """Units whose rows lie all over the data. Rows that nobody may see; and many classes."""
    whose = np.random.default_rng(0).integers(0, 60, 200)
    same("lda", parts(7), groups=whose, **FEW)
    X, y = (np.array(a, dtype=float) for a in EVERY["logistic"][1]())
    X[::9] = np.nan
    same("logistic", parts(5), data=(X, y), options={"invalid": "drop"}, **POISSON)
    same("logistic", parts(4), data=(X, y), options={"invalid": "drop"}, groups=whose, **FEW)
    labels = np.arange(200) % 3
    same("logistic", parts(3), data=(np.nan_to_num(X), labels), classes=[0, 1, 2], n_steps=2, **POISSON)


def test_no_rows_fewer_rows_than_parts_and_more_units_than_int64_holds(parts, monkeypatch):
    for n in (0, 3):
        same("lda", parts(16), data=counts(n), n_records=50, **FEW)
    monkeypatch.setattr(LdaModel, "capacity", 7)
    same("lda", parts(6), **POISSON)


def test_diagnostics_are_those_of_one_process(parts):
    make, data = EVERY["lda"]
    here, there = (make(**POISSON).set_unsafe(test_key=KEY, diagnostics=True) for _ in range(2))
    here.fit(*data())
    there.fit(*data(), backend=parts(5))
    assert [d.keys() for d in here.diagnostics_] == [d.keys() for d in there.diagnostics_]
    for one, other in zip(here.diagnostics_, there.diagnostics_):
        assert all(one[name] == pytest.approx(other[name], rel=1e-12) for name in one)


def test_a_private_vocabulary(parts):
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{i}" for i in rng.geometric(0.2, 12)) for _ in range(600)]
    whose = np.arange(600) // 2
    found = []
    for where in (None, parts(5)):
        words = PrivateVocabulary(epsilon=4.0, delta=1e-5, analyzer=str.split).set_unsafe(test_key=KEY)
        found.append(bits(words.fit(texts, groups=whose, backend=where)))
    assert found[0] == found[1] and len(found[0]["lengths"])


def test_real_noise_and_a_step_by_step_fit(backend):
    """Without a test key; further calls go on from the first."""
    model = CASES["lda"][0](sampling="full")
    for step in range(2):
        assert model.partial_fit(*counts(), backend=backend).n_steps_ == step + 1
    assert model.privacy_.private and len(model.ledger_) == 2


# ------------------------------------------------------------------- blocks


def cut(data, at):
    return [data[a:b] for a, b in zip([0, *at], [*at, data.shape[0]])]


def test_blocks_that_workers_make_themselves(backend):
    """Delayed CSR blocks, and a Dask array in blocks. Persons have their rows in one block."""
    from dask import array, delayed

    (X,), at = counts(), [30, 31, 150]
    blocks = [delayed(sp.csr_array)(part) for part in cut(X, at)]
    whose = np.repeat(np.arange(100), 2)
    whose[30] = 1000  # a person of one row
    few, (rows, labels) = dict(n_steps=2, **FEW), EVERY["logistic"][1]()
    chunks = array.from_array(rows, chunks=(64, -1)), array.from_array(labels, chunks=64)
    for name, options, here, there in (
        ("lda", few, dict(X=X), dict(X=blocks)),
        ("lda", few, dict(X=X, groups=whose), dict(X=blocks, groups=cut(whose, at))),
        ("logistic", dict(classes=[0, 1], **POISSON), dict(X=rows, y=labels), dict(X=chunks[0], y=chunks[1])),
    ):
        one, other = (EVERY[name][0](**options).set_unsafe(test_key=KEY) for _ in range(2))
        assert bits(one.fit(**here)) == bits(other.fit(**there, backend=backend))
        assert other.privacy_.unit == ("person" if "groups" in here else "record")


def test_blocks_that_do_not_go_together_are_refused_before_anything_is_spent(backend, caplog):
    """And an error of what makes a block is not quoted."""
    from dask import delayed

    (X,), bad = counts(), delayed(int)("secret")
    parts, whose = [delayed(part) for part in cut(X, [50, 100])], np.repeat(np.arange(100), 2)
    for data, more, message in (
        (parts, dict(groups=cut(whose, [50])), "groups: expected a list of 3 blocks"),
        (parts, dict(groups=cut(whose[::-1], [49, 100])), "groups: expected all rows of a person in one block"),
        ([*parts, delayed(sp.csr_array((2, 11)))], {}, "X: expected blocks of one n_features"),
        ([*parts, delayed(sp.csr_array(-np.eye(12)))], {}, "X.*negative"),
        ([bad, X], {}, r"^the blocks of X cannot be read \(ValueError\)$"),
        ([X], dict(groups=[bad]), r"^the blocks of groups cannot be read \(ValueError\)$"),
    ):
        model = EVERY["lda"][0]()
        with pytest.raises((ValueError, ClusterError), match=message) as caught:
            model.fit(data, backend=backend, **more)
        assert not hasattr(model, "ledger_")
        assert "cannot be read" not in message or caught.value.__cause__ is caught.value.__context__ is None


def test_shards_that_workers_open_themselves(parts, tmp_path):
    """Counts, numbers with labels, binary records; with persons. What is sent are places on the disk, and no row."""
    (X,), whose = counts(), np.sort(np.random.default_rng(0).integers(0, 70, 200))
    corpus = write_shards(tmp_path / "counts", [Batch(X, persons=whose.tolist())])
    same("lda", parts(5), data=(corpus,), **POISSON)
    same("lda", parts(5), data=(corpus,), groups=corpus.groups, **FEW)
    X, y = EVERY["logistic"][1]()
    corpus = write_shards(tmp_path / "numbers", [Batch(X, y)], kind="numbers")
    same("logistic", parts(4), data=(corpus, corpus.labels), n_steps=2, **FIXED)
    corpus = write_shards(tmp_path / "binary", [Batch(*EVERY["network"][1]())], kind="binary")
    same("network", parts(3), data=(corpus,), **FULL)


def test_a_block_that_is_read_anew_has_the_rows_that_it_had():
    held = cluster.Sent(None)
    for n in (3, 5):
        held.content = types.SimpleNamespace(n_rows=n, usable=None)
        with pytest.raises(ClusterError, match="^a block has other rows than when it was first read$"):
            cluster.sum_part(held, None, None, (10, 14), 0, identity(), False)


# -------------------------------------------------------- lost and bad workers


class Killed:
    """Fits while workers are killed at random moments of their sums. Each is compared with one undisturbed fit."""

    def __init__(self, backend, folder):
        self.backend, self.folder, self.whole, self.hits, self.at_work = backend, folder, {}, 0, -1

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def sum(self, model, records, rows, *more):
        """Sum as the backend does, and note it meanwhile."""
        self.at_work = rows.step
        try:
            return self.backend.sum(model, records, rows, *more)
        finally:
            self.at_work = -1

    def __call__(self, name, seed, most):
        make, data = EVERY[name]
        if name not in self.whole:
            self.whole[name] = bits(keyed(make(**POISSON, n_steps=6)).fit(*data()))
        budget = Budget.create(self.folder / f"{name}-{seed}", 50.0, 1e-5, dataset="d")
        first = seed // 4 % 6
        with kills(self.backend.client.cluster, seed, 0.02, most, lambda: self.at_work >= first) as hit:
            model = keyed(make(**POISSON, n_steps=6)).fit(*data(), backend=self, budget=budget)
        assert bits(model) == self.whole[name] and len(model.ledger_) == 6
        assert [run["drawn"] for run in budget.show()["runs"]] == [6]
        self.hits += len(hit)


def test_workers_that_are_killed_change_nothing_and_cost_nothing(parts, tmp_path):
    fit = Killed(parts(5), tmp_path)
    for seed in range(3):
        fit("lda", seed, 1 + seed % 2)
    assert fit.hits


@pytest.mark.slow
def test_two_hundred_fits_among_kills(tmp_path):
    with connected(n_workers=3, timeout=300) as backend:
        backend.n_partitions, fit = 5, Killed(backend, tmp_path)
        for seed in range(200):
            fit(("lda", "logistic", "network", "logistic-sparse")[seed % 4], seed, 1)
        print(f"{fit.hits} kills in the sums of 200 fits")
        assert fit.hits > 150


@contextmanager
def joined(backend, **environment):
    """Add one more worker, with an environment of its own."""
    from distributed import Nanny

    cluster = backend.client.cluster

    async def begin():
        security = cluster.security
        return await Nanny(cluster.scheduler_address, nthreads=1, env=environment, security=security)

    nanny = cluster.sync(begin)
    try:
        yield nanny
    finally:
        cluster.sync(nanny.close)


def test_workers_that_join_are_asked_who_they_are(parts, caplog):
    """Workers of another instruction set are left out or refused.

    Left out of a run, and refused at its begin; a good one takes part.
    """
    backend = parts(4)
    with joined(backend, VIPS_FAST_ISA="portable") as other:
        same("lda", backend, **POISSON)
        assert "is left out: instruction set portable, expected" in caplog.text
        address = other.worker_address
        with pytest.raises(ClusterError, match=f"^worker {address}: instruction set portable, .* VIPS_FAST_ISA"):
            DaskBackend(backend.client)
        # Whoever schedules it: such a worker computes no sum.
        asked = backend.client.submit(cluster.sum_part, *[None] * 5, identity(), False, workers=[address], pure=False)
        with pytest.raises(ClusterError, match="not like the others"):
            asked.result(timeout=60)


def test_identities_differ_by_name(monkeypatch):
    mine = identity()
    assert {"vips_fast", "package files", "instruction set", "processor", "Python", "numpy"} <= mine.keys()
    assert cluster.difference(dict(mine)) is None
    for name in mine:
        assert cluster.difference({**mine, name: "other"}).startswith(f"{name} other, expected {mine[name]}")
    monkeypatch.setattr(cluster.native, "isa", lambda: "baseline")
    assert identity.__wrapped__()["processor"] == cluster.platform.machine()  # its kernels round alike everywhere


@pytest.mark.parametrize("end", ["raise MemoryError", "die"])
def test_a_worker_that_fails_for_good_ends_the_fit_in_one_line(end, parts, tmp_path):
    """The finished steps stay, and the run continues after them."""
    backend = parts(2)
    scheduler = backend.client.cluster.scheduler
    whole = bits(keyed(_failing("no")).fit(*counts()))
    before, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        with pytest.raises(ClusterError) as caught:
            keyed(_failing(end)).fit(*counts(), backend=backend, checkpoint=tmp_path / "run")
    finally:
        scheduler.allowed_failures = before
    said = "a worker failed (MemoryError)" if "raise" in end else "workers died again and again"
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)
    model = keyed(_failing("no")).fit(*counts(), backend=backend, checkpoint=tmp_path / "run", resume=True)
    assert bits(model) == whole and len(model.ledger_) == 3


def _failing(end):
    from clusters import FailsLate

    model = FailsLate(3, noise_multiplier=2.0, delta=1e-5, random_state=0, doc_length=30, n_steps=3)
    model.failure = end
    return model


def test_a_scheduler_that_does_not_answer():
    """Nobody listens, or somebody who says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (9, silent.getsockname()[1]):
            said = rf"^tcp://127.0.0.1:{port}: the scheduler does not answer \(\w+\)$"
            with pytest.raises(ClusterError, match=said), connected(f"tcp://127.0.0.1:{port}", timeout=0.5):
                pass


def test_what_is_lost_with_the_only_worker_that_may_compute_it_is_waited_for_in_vain(backend, monkeypatch):
    """Dask itself would wait for it to come back."""
    from distributed import wait

    monkeypatch.setattr(cluster, "_IDLE", 1)
    with joined(backend) as nanny:
        address = nanny.worker_address
        done = backend.client.submit(identity, key="vips_identity-lost", workers=[address], pure=False)
        wait(done, timeout=120)
    start = time.monotonic()
    assert backend._result(done, [address], "lost") is None
    elsewhere = list(backend._workers())
    done = backend.client.submit(identity, key="vips_identity-lost-too", workers=[address], pure=False)
    assert backend._result(done, elsewhere, "lost-too") is None
    assert time.monotonic() - start < 300


def test_who_has_no_certificate_is_not_let_in(backend):
    from distributed import Client

    address = backend.client.cluster.scheduler_address
    assert address.startswith("tls://")
    for other in (address, address.replace("tls", "tcp")):
        with uncollected(), pytest.raises((OSError, TypeError, ValueError)):
            Client(other, timeout=1)


def test_what_the_scheduler_and_the_logs_show(backend):
    """Names of tasks, and no number of a record. Not even where a sum fails."""
    secret = 918273645
    X = np.full((40, 4), float(secret))
    seen, client = [], backend.client
    handler = logging.StreamHandler(stream := io.StringIO())
    logging.getLogger("distributed").addHandler(handler)
    try:
        sent = client.scatter(cluster.Sent(X), hash=False)
        bad = client.submit(cluster.sum_part, sent, sent, None, (0, 40), 0, identity(), False, pure=False)
        with pytest.raises(AttributeError):
            bad.result(timeout=60)
        seen += [str(sent.key), str(client.get_worker_logs()), str(client.get_scheduler_logs()), stream.getvalue()]
    finally:
        logging.getLogger("distributed").removeHandler(handler)
    seen += [str(key) for key in client.cluster.scheduler.tasks]
    assert not any(str(secret) in text for text in seen) and "sum_part" in "".join(seen)
    assert str(secret) not in repr(cluster.Sent(X)) + str(pickle.loads(pickle.dumps(cluster.Sent(X))))


def test_parameters_of_the_backend(backend):
    from distributed import Client

    with pytest.raises(ValueError, match="^n_partitions=0: expected at least 1, or None"):
        DaskBackend(backend.client, n_partitions=0)
    with pytest.raises(ValueError, match="^client: expected a synchronous"):
        DaskBackend(None)
    with uncollected(), Client(processes=False, n_workers=1, dashboard_address=None) as inside:
        with pytest.raises(ValueError, match="^client: expected workers in processes of their own"):
            DaskBackend(inside)


# ------------------------------------------------------------------ the shell

SHELL = ["--topics", "3", "--doc-length", "30", "--non-private", "--seed", "1", "--steps", "2", "--quiet"]


@pytest.mark.parametrize("own", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_command(own, backend, tmp_path):
    """A scheduler by its address, keys and certificates from Dask's configuration; or worker processes of its own."""
    import dask

    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(counts()[0]))
    words = ["fit", "lda", str(tmp_path / "counts.npz"), *SHELL, "--json", "--out"]
    security, keys = backend.client.cluster.security, {}
    for name in ("ca-file", "client.cert", "client.key"):
        (tmp_path / name).write_text(getattr(security, "tls_" + re.sub(r"\W", "_", name)))
        keys[f"distributed.comm.tls.{name}"] = str(tmp_path / name)
    with dask.config.set({} if own else keys):
        for out, more in (
            ("here", []),
            ("there", ["--workers", "2" if own else backend.client.cluster.scheduler_address]),
        ):
            assert cli.main([*words, str(tmp_path / out), *more]) == 0
    here, there = (bits(LatentDirichletAllocation.load(tmp_path / out)) for out in ("here", "there"))
    assert here == there


def test_the_command_says_that_a_scheduler_does_not_answer(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 0.3)
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(counts()[0]))
    budget = Budget.create(tmp_path / "budget", 5.0, 1e-4, dataset="d")
    words = ["fit", "lda", str(tmp_path / "counts.npz"), "--topics", "3", "--epsilon", "1", "--budget", budget.path]
    code = cli.main([*map(str, words), "--workers", "tcp://127.0.0.1:9", "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err.strip().splitlines()
    assert code == 1 and said[-1].startswith("vips-fast: error: tcp://127.0.0.1:9: the scheduler does not answer")
    assert budget.left == 5.0 and not (tmp_path / "out").exists() and not list(tmp_path.glob("out.run*"))
