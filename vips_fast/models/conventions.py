"""Answer scikit-learn's tools: an estimator's tags and metadata routes.

The routes are of its methods' keywords.

scikit-learn is imported when one of its tools asks, and never before. Nothing here is learned from data: tags and
requests follow from the parameters and from the user's requests.
"""

import copy
import inspect
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Self

from .parameters import Parameters


class Conventions(Parameters):
    """Estimator for scikit-learn's pipelines, searches and cross-validation."""

    def __sklearn_clone__(self) -> Self:
        """An unfitted copy for scikit-learn's ``clone``."""
        params: dict[str, Any] = {name: copy.deepcopy(value) for name, value in self.get_params(deep=False).items()}
        other = type(self)(**params)
        # Requests of the user, and no results of fits.
        vars(other).update({name: vars(self)[name] for name in ("_output", "_requests") if name in vars(self)})
        return other

    def _keywords(self, method: str) -> list[str]:
        """List a method's arguments beside the data, in order."""
        return [name for name in [*inspect.signature(getattr(self, method)).parameters][1:] if name != "y"]

    def _request(self, method: str, requests: dict[str, bool | str | None]) -> Self:
        known = self._keywords(method)
        for name, request in requests.items():
            if name not in known:
                raise TypeError(f"set_{method}_request: {name!r} is not a keyword of {method}: expected one of {known}")
            if not (request is None or isinstance(request, (bool, str))):
                raise ValueError(f"set_{method}_request: {name}={request!r}: expected True, False, None or a name")
        asked: dict[str, dict[str, bool | str | None]] = vars(self).get("_requests", {})
        vars(self)["_requests"] = {**asked, method: {**asked.get(method, {}), **requests}}
        return self

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Choose the keywords of ``fit`` that scikit-learn's tools hand on.

        This is about scikit-learn's metadata routing. A pipeline, a search or cross-validation hands ``groups``,
        ``budget`` or another keyword on if it is True (or the name that it has there). It keeps it for itself if it is
        False. None, as at first, refuses: nobody's ``groups`` are left out unseen. Returns the estimator; raises
        TypeError for an unknown keyword, ValueError for another request.

        >>> from vips_fast import LatentDirichletAllocation
        >>> model = LatentDirichletAllocation(2).set_fit_request(groups=True, budget=True)
        >>> model.get_metadata_routing().fit.requests["groups"]
        True
        """
        return self._request("fit", requests)

    def set_partial_fit_request(self, **requests: bool | str | None) -> Self:
        """Choose keywords as `set_fit_request`, for ``partial_fit``."""
        return self._request("partial_fit", requests)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Choose keywords as `set_fit_request`, for ``score``."""
        return self._request("score", requests)

    def get_metadata_routing(self) -> object:
        """Return the requests in scikit-learn's form (needs scikit-learn)."""
        from sklearn.utils.metadata_routing import MetadataRequest

        routing, asked = MetadataRequest(owner=self), vars(self).get("_requests", {})
        for method in ("fit", "partial_fit", "score"):
            if hasattr(self, method):
                for name in self._keywords(method):
                    getattr(routing, method).add_request(param=name, alias=asked.get(method, {}).get(name))
        return routing

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            input_tags=InputTags(),
            non_deterministic=bool(self.private),
        )


def warn_of_pipeline() -> None:
    """Warn if a step of scikit-learn's pipelines before this fit learns from the records.

    An estimator is given columns, and nothing about their making. But a pipeline fits its steps, so it stands among the
    callers. That it has such a step is no private fact.
    """
    for step in _earlier_steps():
        if learns(step):
            warnings.warn(
                f"{type(step).__name__}, a step of the pipeline before, learns from the records, and the guarantee "
                "leaves that out; expected a step that learns nothing (HashingVectorizer, ColumnEncoder, public "
                "numbers) or privately (PrivateCountVectorizer)",
                stacklevel=5,
            )


def _earlier_steps() -> Iterator[Any]:
    """List the steps that the calling pipelines of scikit-learn ran before this one."""
    frame, seen = sys._getframe(1) if "sklearn.pipeline" in sys.modules else None, set[int]()
    while frame is not None:
        if frame.f_globals.get("__name__") == "sklearn.pipeline" and "fit" in frame.f_code.co_name:
            known = frame.f_locals
            pipeline = known.get("self")
            steps = () if id(pipeline) in seen else getattr(pipeline, "steps", ())
            # The inner one of a pipeline's functions says how far it is; none does so of the last step.
            seen.add(id(pipeline))
            yield from (step for _, step in steps[: known.get("step_idx", len(steps) - 1)])
        frame = frame.f_back


def warn_of_ensemble() -> None:
    """Warn if an ensemble of scikit-learn that fits this model fits others to the same records without privacy."""
    seen = set[int]()
    for frame in _frames("sklearn."):
        whole = frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        if whole is None or id(whole) in seen:
            continue
        seen.add(id(whole))
        members = [*(getattr(whole, "estimators", None) or ()), ("", getattr(whole, "final_estimator", None) or "drop")]
        for member in (one[1] for one in members if isinstance(one, tuple)):
            if not _is_private(member):
                told = f"{type(whole).__name__} also fits {type(member).__name__} to the same records"
                warnings.warn(
                    f"{told}, without privacy: the guarantee is of this model, and not of the whole", stacklevel=5
                )


def _is_private(member: Any) -> bool:
    """Tell whether a member of an ensemble is a private model, or none at all."""
    if isinstance(member, Conventions):
        return bool(member.private)
    if steps := getattr(member, "steps", None):
        return _is_private(steps[-1][1])
    inner = getattr(member, "estimator", None)
    return isinstance(member, str) or (inner is not None and _is_private(inner))


def warn_of_learned_columns(n_columns: int) -> None:
    """Warn if the calling program holds a step of scikit-learn that has learned as many columns as X has.

    An array says nothing of its making, but the vectorizer or selector that made it is most often a variable of one of
    the callers. It sees no step whose object is gone, and none of another process.
    """
    seen = {id(step) for step in _earlier_steps()}
    for frame in _frames(""):
        for value in list(frame.f_locals.values()):
            module = getattr(type(value), "__module__", "")
            if not isinstance(module, str) or not module.startswith("sklearn.") or id(value) in seen:
                continue
            seen.add(id(value))
            if _columns_made(value) == n_columns:
                warnings.warn(
                    f"{type(value).__name__}, in the calling program, has learned as many columns as X has: from these "
                    "records? The guarantee leaves that out; expected public columns (a vocabulary or a list), or "
                    "PrivateCountVectorizer",
                    stacklevel=5,
                )


def _columns_made(step: Any) -> int | None:
    """Count the columns that a fitted step learned; None for any other object."""
    try:
        return len(step.get_feature_names_out()) if hasattr(step, "transform") and learns(step) else None
    except Exception:  # of any library's own kind: not fitted, without names, or no step at all
        return None


def _frames(module: str) -> Iterator[Any]:
    """List the callers' frames, if scikit-learn is loaded, in modules of a name."""
    frame = sys._getframe(1) if "sklearn" in sys.modules else None
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(module):
            yield frame
        frame = frame.f_back


def learns(step: Any) -> bool:
    """Tell whether a step of scikit-learn learns from records."""
    for name in ("steps", "transformer_list", "transformers"):
        if inner := getattr(step, name, None):
            return any(learns(one[1]) for one in inner)
    public = getattr(step, "categories", "auto") != "auto" or (
        type(step).__name__ == "CountVectorizer" and step.vocabulary is not None
    )
    if step is None or isinstance(step, (str, Conventions)) or type(step).__module__.startswith("vips_fast.") or public:
        return False
    from sklearn.utils import get_tags

    return bool(get_tags(step).requires_fit)
