"""Answer scikit-learn's tools: an estimator's tags and metadata routes.

The routes are of its methods' keywords.

scikit-learn is imported when one of its tools asks, and never before. Nothing here is learned from data: tags and
requests follow from the parameters and from the user's requests.
"""

import inspect
from typing import Any, Self

from .repeats import Repeatable


class Conventions(Repeatable):
    """Estimator for scikit-learn's pipelines, searches and cross-validation."""

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
