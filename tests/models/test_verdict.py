"""The verdict on a model.

Which numbers lead to which word, and every output shows it first.
"""

from html import unescape

import pytest
from priors import documents

from vips_fast import LatentDirichletAllocation
from vips_fast.engine.gain import FoundGain
from vips_fast.jobs import beside
from vips_fast.models.verdict import Verdict
from vips_fast.report import html_report
from vips_fast.report.dossier import make_dossier
from vips_fast.report.short import short_report

MUCH, UNSURE, NONE = FoundGain(0.2, 0.1, 0.3), FoundGain(0.05, -0.1, 0.2), FoundGain(-0.1, -0.2, 0.01)


@pytest.mark.parametrize(
    "found, clear, worth, says",
    [
        (MUCH, 40, "useful", "useful. Found in a release: it predicts 20% better (90 % interval 10% to 30%)"),
        (MUCH, 3, "weak", "good for prediction, not for reading"),
        (MUCH, None, "useful", "than chance does."),
        (UNSURE, 40, "weak", "good for reading and for tables, not for prediction"),
        (UNSURE, 3, "noise", "perhaps better (-10% to 20%)"),
        (FoundGain(0.05, -0.01, 0.2), None, "weak", "perhaps better (-1% to 20%)"),
        (UNSURE, None, "noise", "perhaps better (-10% to 20%)"),
        (NONE, 40, "weak", "good for reading and for tables, not for prediction"),
        (NONE, 3, "noise", "Verdict: mostly noise. Found in a release: it predicts no better"),
        (NONE, None, "noise", "mostly noise"),
        (None, 40, "", ""),
        (None, 0, "noise", "Verdict: mostly noise. No different words stand clear of the noise."),
        (None, 1, "noise", "1 different word stands clear"),
        (None, None, "", ""),
    ],
)
def test_two_numbers_decide(found, clear, worth, says):
    verdict = Verdict.of(found, "it predicts", over="chance does", clear=clear, enough=10, feature="different word")
    assert verdict.worth == worth and says in verdict.text and (not says) == (not verdict.text)


@pytest.mark.parametrize("noise, worth", [(6.0, "useful"), (3000.0, "noise")])
def test_every_door_says_it_first(noise, worth):
    model = LatentDirichletAllocation(
        4, doc_length=40, noise_multiplier=noise, sampling="full", n_records=2000, random_state=0, n_steps=10
    )
    model.fit(documents(2000, 64))
    verdict = model.verdict_
    assert verdict.worth == worth and str(verdict) == verdict.text
    (text,) = beside.write_text(model).values()
    assert text.split("\n")[0] == verdict.text
    assert model._repr_html_().startswith("<p><strong>Verdict")
    assert short_report(make_dossier(model), 10**6).split("\n")[0] == verdict.text
    page = unescape(html_report(model))
    assert page.index(verdict.text) < page.index("What is guaranteed")
