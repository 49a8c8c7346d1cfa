"""The docstrings of source files."""

import sys

from vips_fast.demo import docstrings_by_file


def test_docstrings_are_read_as_they_stand(tmp_path, monkeypatch):
    package = tmp_path / "madeup_package"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_text(
        '"""module"""\n'
        "raise SystemExit('imported')\n"
        "if True:\n"
        "    class A:\n"
        '        """class"""\n'
        "        async def f():\n"
        '            """function"""\n'
        "        def g():\n"
        '            """class"""\n'
    )
    (package / "more.py").write_text('"""class"""\ndef f():\n    """more"""\n')
    for name in ("tests/a.py", "test_a.py"):
        (package / name).write_text('"""tests"""\n')
    (package / "broken.py").write_text('"""broken')
    monkeypatch.syspath_prepend(tmp_path)
    found = docstrings_by_file(("madeup_package", "absent_package"))
    assert "madeup_package" not in sys.modules
    assert [*found.values()] == [["module", "class", "function"], ["more"]]
    assert [path.rpartition("/")[2] for path in found] == ["__init__.py", "more.py"]
    assert len(docstrings_by_file(("madeup_package",), 1)) == 1
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(package))
    assert docstrings_by_file() == found
