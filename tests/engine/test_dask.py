"""Sums on the workers of a Dask cluster. The bits of one process, whatever becomes of workers."""

import io
import logging
import pickle
import socket
import sys
import time
import types
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from cases import CASES, EVERY, counts
from clusters import KEY, bits, keyed, kills, uncollected

from vips_fast import LatentDirichletAllocation, cli
from vips_fast.data import Batch, write_shards
from vips_fast.engine import cluster
from vips_fast.engine.budget import Budget
from vips_fast.engine.cluster import ClusterError, DaskBackend, connected, identity
from vips_fast.models.vocabulary import PrivateVocabulary

pytestmark = pytest.mark.xdist_group("dask")


@pytest.fixture(scope="session")
def backend():
    """Two worker processes, reached by TLS."""
    with connected(n_workers=2, timeout=120) as backend:
        yield backend


@pytest.fixture
def parts(backend):
    """Sets the number of parts for one test."""

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
FULL = dict(sampling="full")
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
                    same(name, backend, groups=whose, known=known, n_steps=2, sampling="poisson", batch_size=20)


def test_persons_and_dropped_records(parts):
    """Units whose rows lie all over the data. Rows that nobody may see; and many classes."""
    whose = np.random.default_rng(0).integers(0, 60, 200)
    same("lda", parts(7), groups=whose, sampling="poisson", batch_size=20)
    X, y = (np.array(a, dtype=float) for a in EVERY["logistic"][1]())
    X[::9] = np.nan
    same("logistic", parts(5), data=(X, y), options={"invalid": "drop"}, **POISSON)
    same(
        "logistic", parts(4), data=(X, y), options={"invalid": "drop"}, groups=whose, sampling="poisson", batch_size=20
    )
    labels = np.arange(200) % 3
    same("logistic", parts(3), data=(np.nan_to_num(X), labels), classes=[0, 1, 2], n_steps=2, **POISSON)


def test_no_rows_and_fewer_rows_than_parts(parts):
    for n in (0, 3):
        same("lda", parts(16), data=counts(n), n_records=50, sampling="poisson", batch_size=20)


def test_more_units_than_int64_holds(parts, monkeypatch):
    from vips_fast.models.lda.model import LdaModel

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
    make = EVERY["lda"][0]
    options = dict(n_steps=2, sampling="poisson", batch_size=40)
    here = bits(make(**options).set_unsafe(test_key=KEY).fit(X))
    assert bits(make(**options).set_unsafe(test_key=KEY).fit(blocks, backend=backend)) == here
    here = bits(make(**options).set_unsafe(test_key=KEY).fit(X, groups=whose))
    there = make(**options).set_unsafe(test_key=KEY).fit(blocks, groups=cut(whose, at), backend=backend)
    assert bits(there) == here and there.privacy_.unit == "person"

    X, y = EVERY["logistic"][1]()
    rows, labels = array.from_array(X, chunks=(64, -1)), array.from_array(y, chunks=64)
    make, options = EVERY["logistic"][0], dict(classes=[0, 1], **POISSON)
    here = bits(make(**options).set_unsafe(test_key=KEY).fit(X, y))
    assert bits(make(**options).set_unsafe(test_key=KEY).fit(rows, labels, backend=backend)) == here


def test_blocks_that_do_not_go_together_are_refused_before_anything_is_spent(backend, caplog):
    from dask import delayed

    (X,) = counts()
    parts, make = [delayed(part) for part in cut(X, [50, 100])], EVERY["lda"][0]
    whose = np.repeat(np.arange(100), 2)
    for data, more, message in (
        (parts, dict(groups=cut(whose, [50])), "groups: expected a list of 3 blocks"),
        (parts, dict(groups=cut(whose[::-1], [49, 100])), "groups: expected all rows of a person in one block"),
        ([*parts, delayed(sp.csr_array((2, 11)))], {}, "X: expected blocks of one n_features"),
        ([*parts, delayed(sp.csr_array(-np.eye(12)))], {}, "X.*negative"),
        ([*parts, delayed(_breaks)()], {}, r"the blocks of X cannot be read \(ZeroDivisionError\)$"),
    ):
        model = make()
        with pytest.raises((ValueError, ClusterError), match=message):
            model.fit(data, backend=backend, **more)
        assert not hasattr(model, "ledger_")


def test_shards_that_workers_open_themselves(parts, tmp_path):
    """Counts, numbers with labels, binary records; with persons. What is sent are places on the disk, and no row."""
    (X,), whose = counts(), np.sort(np.random.default_rng(0).integers(0, 70, 200))
    corpus = write_shards(tmp_path / "counts", [Batch(X, persons=whose.tolist())])
    same("lda", parts(5), data=(corpus,), **POISSON)
    same("lda", parts(5), data=(corpus,), groups=corpus.groups, sampling="poisson", batch_size=20)
    X, y = EVERY["logistic"][1]()
    corpus = write_shards(tmp_path / "numbers", [Batch(X, y)], kind="numbers")
    same("logistic", parts(4), data=(corpus, corpus.labels), n_steps=2, **FIXED)
    corpus = write_shards(tmp_path / "binary", [Batch(*EVERY["network"][1]())], kind="binary")
    same("network", parts(3), data=(corpus,), **FULL)


def _breaks():
    return 1 / 0


def _quotes():
    raise ValueError("secret")


def test_an_error_of_what_makes_a_block_is_not_quoted():
    from dask import delayed

    (X,), bad = counts(), delayed(_quotes)()
    with connected(n_workers=1, timeout=120) as backend:
        for data, more, name in (([bad, X], {}, "X"), ([X], dict(groups=[bad]), "groups")):
            said = rf"^the blocks of {name} cannot be read \(ValueError\)$"
            with pytest.raises(ClusterError, match=said) as caught:
                EVERY["lda"][0]().fit(data, backend=backend, **more)
            assert caught.value.__cause__ is None and caught.value.__context__ is None


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
    """Return a topic model whose workers fail in the third step."""
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


def test_what_is_lost_with_the_only_worker_that_may_compute_it_is_waited_for_in_vain(backend):
    """Dask itself would wait for it to come back."""
    from distributed import wait

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


def test_what_is_sent_knows_its_size():
    X = np.zeros((1000, 7))
    assert X.nbytes < sys.getsizeof(cluster.Sent(X)) < X.nbytes + 2000
    assert X.nbytes < sys.getsizeof(cluster.Sent.of(X)) < X.nbytes + 2000
    assert X.nbytes < sys.getsizeof(pickle.loads(pickle.dumps(cluster.Sent.of(X)))) < X.nbytes + 2000


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


def test_the_command(backend, tmp_path):
    """A scheduler by its address, keys and certificates from Dask's configuration. Worker processes; refusals."""
    import dask

    (X,) = counts()
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(X))
    words = ["fit", "lda", str(tmp_path / "counts.npz"), *SHELL, "--json", "--out"]
    own, keys = backend.client.cluster.security, {}
    texts = {"ca-file": own.tls_ca_file, "client.cert": own.tls_client_cert, "client.key": own.tls_client_key}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        keys[f"distributed.comm.tls.{name}"] = str(tmp_path / name)
    ends = {"here": [], "there": ["--workers", backend.client.cluster.scheduler_address]}
    with dask.config.set(keys):
        for out, more in ends.items():
            assert cli.main([*words, str(tmp_path / out), *more]) == 0
    models = [bits(LatentDirichletAllocation.load(tmp_path / out)) for out in ends]
    assert models[0] == models[1]


@pytest.mark.slow
def test_the_command_with_workers_of_its_own(tmp_path):
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(counts()[0]))
    words = ["fit", "lda", str(tmp_path / "counts.npz"), *SHELL]
    for out, more in (("here", []), ("there", ["--workers", "2"])):
        assert cli.main([*words, "--out", str(tmp_path / out), *more]) == 0
    models = [bits(LatentDirichletAllocation.load(tmp_path / out)) for out in ("here", "there")]
    assert models[0] == models[1]


def test_the_command_says_that_a_scheduler_does_not_answer(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "TIMEOUT", 0.3)
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(counts()[0]))
    budget = Budget.create(tmp_path / "budget", 5.0, 1e-4, dataset="d")
    words = ["fit", "lda", str(tmp_path / "counts.npz"), "--topics", "3", "--epsilon", "1", "--budget", budget.path]
    code = cli.main([*map(str, words), "--workers", "tcp://127.0.0.1:9", "--out", str(tmp_path / "out")])
    said = capsys.readouterr().err.strip().splitlines()
    assert code == 1 and said[-1].startswith("vips-fast: error: tcp://127.0.0.1:9: the scheduler does not answer")
    assert budget.left == 5.0 and not (tmp_path / "out").exists() and not list(tmp_path.glob("out.run*"))
