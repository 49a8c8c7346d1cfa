"""Record the families of models, one record a model.

Every table of models in the package is made from it.

A record names the parts of a model that other layers have: which files lie beside it, its part of the report and its
adapter in the audit. Parts are written ``module:name``, relative to the package, and `resolve` imports one when it is
used. So a record imports nothing, from above or below.

The tuple `FAMILIES` is closed. The files of a saved model name a class, and only a name in these records is ever
imported. A file cannot choose the code that runs. The caller passes a class of your own; no file names it.
"""

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple


class Family(NamedTuple):
    """The record of a model."""

    #: Short name, unique: of the audit at the shell, and in messages.
    name: str
    #: Heading of a report.
    title: str
    #: Estimators that ``vips_fast`` exports; the first is the one that `estimator` gives.
    classes: tuple[str, ...] = ()
    #: Other classes that `save` may have named, such as the classes of the ``paper`` constructors.
    variants: tuple[str, ...] = ()
    #: The word behind ``vips-fast fit``, "" if the shell fits no such model.
    command: str = ""
    #: The method whose result ``vips-fast predict`` prints of new records; "" if it takes no such model. The module of
    #: the shell that fits it then has ``read_new(args, model)``.
    verb: str = ""
    #: File beside a saved model that ``fit`` writes and ``verify`` makes again.
    text: str = ""
    #: Files of a saved model with the texts that give its numbers their meaning; a fit takes these as ``inputs``.
    inputs: tuple[str, ...] = ()
    #: Class of its part of a report, a `vips_fast.report.part.Part`.
    part: str = "report.part:Part"
    #: Class of its adapter in the audit, a `vips_fast.audit.adapter.Adapter`; "" for a family without one.
    adapter: str = ""

    @property
    def names(self) -> set[str]:
        """Names of its classes and variants."""
        return {path.partition(":")[2] for path in (*self.classes, *self.variants)}

    def estimator(self) -> Any:
        """Import the family's first class."""
        return resolve(self.classes[0])


#: Inputs: the words of the columns; how texts were read; the columns of a table; the names of a matrix's columns.
VOCABULARY, READING, SCHEMA, COLUMNS = "vocab.txt", "text.json", "schema.toml", "columns.txt"
#: Inputs of every model: the purchase of its columns (`vips_fast.models.vocabulary.estimator`), and the job's options
#: that no setting holds, such as the column of persons (`vips_fast.jobs.job`).
PURCHASE, ASKED = "words.json", "asked.json"

#: A model of your own, such as those in docs/examples.
OWN = Family(name="own", title="A model of one's own", inputs=(VOCABULARY, READING, SCHEMA, COLUMNS))

FAMILIES = (
    Family(
        name="lda",
        title="Topic model",
        classes=("models.lda:LatentDirichletAllocation",),
        variants=("models.lda.paper:PaperLatentDirichletAllocation",),
        command="lda",
        verb="transform",
        text="topics.txt",
        inputs=(VOCABULARY, READING),
        part="report.parts.topics:Topics",
        adapter="audit.adapters:LdaAdapter",
    ),
    Family(
        name="blr",
        title="Logistic regression",
        classes=("models.logistic:BayesianLogisticRegression",),
        variants=("models.logistic.paper:PaperLogisticRegression",),
        command="blr",
        verb="predict_proba",
        text="coefficients.csv",
        inputs=(SCHEMA, COLUMNS),
        part="report.parts.coefficients:Coefficients",
        adapter="audit.adapters:LogisticAdapter",
    ),
    Family(
        name="counts",
        title="Regression of counts",
        classes=("models.logistic:CountRegression",),
        command="counts",
        verb="predict",
        text="coefficients.csv",
        inputs=(SCHEMA, COLUMNS),
        part="report.parts.coefficients:Rates",
        adapter="audit.adapters:CountsAdapter",
    ),
    Family(
        name="sbn",
        title="Sigmoid belief network",
        classes=("models.sbn:SigmoidBeliefNetwork",),
        command="sbn",
        verb="transform",
        part="report.parts.networks:Network",
        adapter="audit.adapters:SbnAdapter",
    ),
    Family(
        name="sbn-classes",
        title="A belief network for each class",
        classes=("models.sbn:ClassConditionalNetwork",),
        adapter="audit.adapters:ClassesAdapter",
    ),
    Family(
        name="mixture",
        title="Mixture",
        classes=("models.mixture:GaussianMixture",),
        command="mixture",
        verb="predict_proba",
        text="components.csv",
        inputs=(SCHEMA, COLUMNS),
        part="report.parts.components:Components",
    ),
    Family(
        name="clusters",
        title="Clusters of documents",
        classes=("models.clusters:DocumentClusters",),
        command="clusters",
        text="components.csv",
        inputs=(READING,),
        part="report.parts.components:DocumentComponents",
    ),
    Family(
        name="tables",
        title="Tables by group",
        classes=("models.tables:TopicTables",),
        text="tables.csv",
        inputs=(COLUMNS,),
        part="report.parts.tables:Tables",
    ),
    Family(
        name="words",
        title="Vocabulary",
        classes=("models.vocabulary:PrivateVocabulary",),
        part="report.parts.words:Words",
    ),
    OWN,
)


@cache
def _places() -> dict[str, tuple[str, Family]]:
    """Map each class name in a model's files to its place. The place is its path and its family."""
    return {path.partition(":")[2]: (path, one) for one in FAMILIES for path in (*one.classes, *one.variants)}


def resolve(path: str) -> Any:
    """Resolve a record's part: ``module:name``, or a module. The path is relative to the package."""
    module, _, name = path.partition(":")
    found = import_module(f"{__name__.partition('.')[0]}.{module}")
    return getattr(found, name) if name else found


def class_named(name: str) -> Any:
    """Import the estimator class that the files of a model name.

    Raises ValueError, before anything is imported, if no record has the name.
    """
    if name not in (places := _places()):
        own = "one of your own is verified from Python, by verify(cls=)"
        raise ValueError(f"{name!r} is not a class of this package; {own}")
    return resolve(places[name][0])


def family_of(model: Any) -> Family:
    """Find the family of an estimator or class.

    A class that is in no record has `OWN`. A class made from one in a record, such as one of your own, is of the same
    family.
    """
    places = _places()
    for kind in (model if isinstance(model, type) else type(model)).__mro__:
        if kind.__module__.startswith(f"{__package__}.") and kind.__name__ in places:
            return places[kind.__name__][1]
    return OWN


def family_named(name: str) -> Family:
    """Find a family by its short name; KeyError for another name."""
    return {one.name: one for one in FAMILIES}[name]


def exported_classes() -> dict[str, str]:
    """Map the classes that ``vips_fast`` exports to their modules."""
    paths = (path.partition(":") for one in FAMILIES for path in one.classes)
    return {name: module for module, _, name in paths}


def with_adapter() -> tuple[str, ...]:
    """List the families that the audit has an adapter for. They have their short names."""
    return tuple(one.name for one in FAMILIES if one.adapter)


def files_beside() -> frozenset[str]:
    """List all families' files that may lie beside a saved model."""
    return frozenset(name for one in FAMILIES for name in (one.text, *one.inputs, PURCHASE, ASKED) if name)
