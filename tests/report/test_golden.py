"""The sentences that a reader of a model gets, as one text.

Reviewed in ``golden.txt``.

The text holds statements, verdicts, forecasts and assumptions of fits with known noise, and the sentences of a page.
Numbers of statements come from the accountant; others are shown as N. If you change a sentence on purpose, store the
text again and read it: ``PYTHONPATH=tests/helpers python tests/report/test_golden.py``.
"""

import html
import re
from pathlib import Path

import numpy as np
import reported

from vips_fast import LatentDirichletAllocation, plan
from vips_fast.engine.assumptions import ASSUMPTIONS, assess
from vips_fast.models.verdict import FoundGain, Verdict

GOLDEN = Path(__file__).with_name("golden.txt")


def _calls(**facts):
    """Return a model after calls of partial_fit."""
    rows = np.random.default_rng(0).poisson(0.6, (200, 12))
    model = LatentDirichletAllocation(2, doc_length=12, random_state=0, **facts)
    return reported.known(model), rows


def statements():
    """Kind of fit -> statement."""
    out = {}
    for name in ("topics", "tainted", "coefficients", "images", "vocabulary"):
        out[name] = str(getattr(reported, name)().privacy_)
    model, rows = _calls(noise_multiplier=8.0, batch_size=200)
    model.partial_fit(rows)
    out["calls with an odometer"] = str(model.partial_fit(rows).privacy_)
    model, rows = _calls(noise_multiplier=8.0, batch_size=200)
    model.partial_fit(rows, part="monday")
    out["parts"] = str(model.partial_fit(rows, part="tuesday").privacy_)
    model, rows = _calls(epsilon=2.0, n_steps=2)
    out["persons"] = str(model.fit(rows, groups=np.arange(200) // 2, unit="patient").privacy_)
    model, rows = _calls(epsilon=2.0, n_steps=2, options={"relation": "replace_one"}, batch_size=50)
    out["samples of a fixed size"] = str(model.fit(rows).privacy_)
    return out


def verdicts():
    """Return finding -> verdict, in a line."""
    found = {
        "useful": FoundGain(0.3, 0.28, 0.32),
        "unsure": FoundGain(0.03, -0.02, 0.08),
        "worse": FoundGain(-0.2, -0.3, -0.1),
    }
    out = {name: Verdict.of_columns(gain, "person").text for name, gain in found.items()}
    out |= {f"topics, {name}": Verdict.of_topics(gain, "person").text for name, gain in found.items()}
    out["topics, hidden"] = Verdict.of_topics(None, "person", hidden=True, outside=(0.3, 0.01), unlike="en").text
    return out


def forecasts():
    """Case -> forecast in a line, from public numbers."""
    made = {n: plan(n, 2_000, 10, epsilon=1.0, doc_length=60) for n in (2_000, 400_000)}
    return {f"{n} documents": planned.forecast() for n, planned in made.items()}


def assumptions():
    """Each assumption with its findings, over models of several kinds."""
    models = [getattr(reported, name)() for name in ("topics", "tainted", "coefficients", "vocabulary")]
    model, rows = _calls(noise_multiplier=8.0, options={"invalid": "drop"}, n_records=200, batch_size=200)
    models.append(model.partial_fit(rows, part="monday"))
    out = {}
    for place, one in enumerate(ASSUMPTIONS):
        reasons = {re.sub(r"\d+", "N", assess(model._fitted())[place].why): None for model in models}
        out[one.title] = " | ".join([one.text, *reasons])
    return out


def page():
    """Sentences of a report's page, without names and numbers."""
    found = re.findall(r"<(p|li|dd|figcaption|caption)\b[^>]*>(.*?)</\1>", reported.page("coefficients"), re.S)
    lines = (" ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split()) for _, text in found)
    known = {one.title for one in ASSUMPTIONS}
    known.add("-differential privacy")
    kept = [line for line in lines if re.search(r"[.:]$", line) and not any(text in line for text in known)]
    return {str(number): line for number, line in enumerate(kept, 1)}


def golden():
    """Return the whole text."""
    parts = {"Statements": statements(), "Verdicts": verdicts(), "Forecasts": forecasts()}
    parts |= {"Assumptions": assumptions(), "Page of a report": page()}
    lines = []
    for title, texts in parts.items():
        lines += [f"# {title}", ""]
        for name, text in texts.items():
            text = text if title == "Statements" else re.sub(r"\d+(?:[.,]\d+)*(?:e[-+]?\d+)?", "N", text)
            lines += [f"{name}: {' '.join(text.split())}", ""]
    return "\n".join(lines)


def test_sentences_are_the_reviewed_ones():
    assert golden() == GOLDEN.read_text("utf-8"), (
        "read the new text: PYTHONPATH=tests/helpers python tests/report/test_golden.py"
    )


if __name__ == "__main__":
    GOLDEN.write_text(golden(), "utf-8")
