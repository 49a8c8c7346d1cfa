"""The bench of measured leakage: it resumes, and reports the finished part."""

import importlib.util
from pathlib import Path

import pytest
from membership import invented_documents

BENCH = Path(__file__).resolve().parent.parent / "bench"
spec = importlib.util.spec_from_file_location("bench_leakage", BENCH / "leakage.py")


@pytest.fixture
def leakage(monkeypatch, tmp_path):
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(module, "BATCH", 8)
    monkeypatch.setattr(module, "SETTINGS", {"none": None, "1": 1.0})
    monkeypatch.setattr(module, "counts", lambda corpus: invented_documents(60, 100, 30))
    return module


def test_runs_go_on_where_they_stopped(leakage, tmp_path, capsys):
    with pytest.raises(SystemExit, match="nothing in"):
        leakage.main(["report", "--corpora", "kos"])
    leakage.main(["run", "--corpora", "kos", "--models", "16", "--minutes", "0"])
    assert not list(tmp_path.rglob("*.npz"))
    leakage.main(["run", "--corpora", "kos", "--models", "16"])
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert len(files) == 4 and capsys.readouterr().out.count("models 8 to 15") == 2
    lost, other = sorted(files)[:2]
    lost.unlink()
    leakage.CORPORA["kos"] = (None, 20)  # only the private fits are others now
    leakage.CORPORA["reuters"] = (None, 100)
    leakage.main(["run", "--corpora", "kos", "--models", "16"])
    again = {path for path, stamp in files.items() if path.stat().st_mtime_ns != stamp}
    assert again == {lost, *(path for path in files if path.name.startswith("1-"))} and other in files
    image = tmp_path / "curves.png"
    capsys.readouterr()
    assert leakage.main(["report", "--corpora", "kos", "reuters", "--image", str(image)]) == 0
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| kos")]
    assert [line.split(" | ")[1] for line in table] == ["none", "1"] and all("| 16 |" in line for line in table)
    assert image.read_bytes().startswith(b"\x89PNG")
