"""Jobs: from raw records to a published folder, paid by a budget.

>>> import tempfile
>>> from pathlib import Path
>>> from vips_fast import LatentDirichletAllocation
>>> from vips_fast.jobs import Job, TextFile
>>> with tempfile.TemporaryDirectory() as folder:
...     table, out = Path(folder) / "notes.csv", Path(folder) / "topics"
...     rows = "".join(f"p{i // 2},cough and fever number {'one two'.split()[i % 2]}\\n" for i in range(4000))
...     _ = table.write_text("patient,note\\n" + rows)
...     model = LatentDirichletAllocation(2, epsilon=8.0, delta=1e-5)
...     source = TextFile(table, ["note"], "patient", language="en", max_share=1.0)
...     done = Job(model, source, out, on_forecast=print).run()
...     sorted(path.name for path in out.iterdir())
forecast: ...
['asked.json', 'model.json', 'model.npz', 'privacy.json', 'privacy.txt', ..., 'vocab.txt', 'words.json']
>>> done.model.privacy_.unit, done.words is not None
('person', True)
"""

from .clusters import PrivateClusters
from .job import Job, Material, Outcome, PurchaseError, Reading, Source, Status
from .publication import check_publication, publish
from .text import TextFile
from .topics import PrivateTopics

__all__ = [
    "Job",
    "Material",
    "Outcome",
    "PrivateClusters",
    "PrivateTopics",
    "PurchaseError",
    "Reading",
    "Source",
    "Status",
    "TextFile",
    "check_publication",
    "publish",
]
