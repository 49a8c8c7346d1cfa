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
...     done = Job(model, TextFile(table, ["note"], "patient", max_share=1.0), out, on_forecast=print).run()
...     sorted(path.name for path in out.iterdir())
forecast: ...
['model.json', 'model.npz', 'privacy.json', 'privacy.txt', 'text.json', 'topics.txt', 'vocab.txt']
>>> done.model.privacy_.unit, done.words is not None
('person', True)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .clusters import PrivateClusters as PrivateClusters
    from .job import Job as Job
    from .job import Material as Material
    from .job import Outcome as Outcome
    from .job import PurchaseError as PurchaseError
    from .job import Reading as Reading
    from .job import Source as Source
    from .job import Status as Status
    from .publication import check_publication as check_publication
    from .publication import publish as publish
    from .text import TextFile as TextFile
    from .topics import PrivateTopics as PrivateTopics

#: Where each name lives; a name is imported when it is first used.
_HOMES = dict.fromkeys(("Job", "Material", "Outcome", "PurchaseError", "Reading", "Source", "Status"), "job")
_HOMES |= {"TextFile": "text", "PrivateTopics": "topics", "PrivateClusters": "clusters"}
_HOMES |= {"publish": "publication", "check_publication": "publication"}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
