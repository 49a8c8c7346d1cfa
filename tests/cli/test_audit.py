"""``audit``."""

import json


def test_audit_follows_the_settings(run, monkeypatch):
    """What reaches the audit, and what its end says; the audit itself has tests of its own."""
    from vips_fast import audit
    from vips_fast.models.lda import LdaOptions

    asked = {}

    class Report:
        passed = True

        def text(self):
            return "passed"

        def to_dict(self):
            return {"passed": self.passed}

    def replaced(model, settings, **more):
        asked.update(more, model=model, settings=settings)
        return Report()

    monkeypatch.setattr(audit, "audit", replaced)
    sets = ["--set", "dtype=float64", "--set", "options.mean_change_tol=0", "--set", "doc_length=20"]
    argv = ["audit", "lda", "--layers", "b,A", "--set", "clip=0.2", *sets, "--json"]
    assert run(*argv[:-1])[:2] == (0, "passed\n")
    code, text, _ = run(*argv)
    assert code == 0 and json.loads(text) == {"passed": True, "exit": "done", "error": None}
    options = LdaOptions(dtype="float64", mean_change_tol=0)
    assert asked["settings"] == dict(n_components=4, sampling="poisson", clip=0.2, doc_length=20, options=options)
    assert (asked["model"], asked["layers"], asked["full"]) == ("lda", ["B", "A"], False)
    assert run("audit", "blr")[0] == 0 and "n_components" not in asked["settings"]
    monkeypatch.setattr(Report, "passed", False)
    code, text, _ = run(*argv, "--full")
    assert (code, json.loads(text)["exit"], asked["full"]) == (1, "failed", True)
    assert run(*argv[:-1])[0] == 1
