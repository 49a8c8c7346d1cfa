"""Entry of a publication in the Differential Privacy Deployments Registry.

The registry (Nanayakkara, Ghazi & Vadhan 2025; github.com/opendp/deployments-registry-data) takes YAML files by its
schema. The entry is JSON, which is YAML too. All facts about privacy are computed from the ledger; facts about the
data and their holder are the holder's own (`About`). ``registry.schema.json`` has the part of the schema that it uses.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from importlib import resources
from typing import Any

from ..accounting import ACCOUNTANTS, Relation, rounded_up
from ..engine.result import FitResult
from ..store.limits import parse_json
from ..store.toml import parse_toml, shown
from ..store.words import several

REGISTRY_FILE = "registry.yaml"
_SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
#: Facts without which the registry takes no entry.
NEEDED = ("name", "curators", "intended_use", "region", "published")


@dataclass(frozen=True)
class About:
    """Public facts about the data of a publication.

    "" and () are not known.

    ``dataset`` and ``date`` are the records' name and time, ``published`` is a day as YYYY-MM-DD. ``curators`` publish,
    and ``authors`` wrote the entry.
    """

    dataset: str = ""
    date: str = ""
    name: str = ""
    curators: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    intended_use: str = ""
    region: str = ""
    sector: str = ""
    published: str = ""
    justification: str = ""
    sources: str = ""

    @classmethod
    def parse(cls, text: str) -> "About":
        """Read a TOML text; ValueError for anything but these facts."""
        said = parse_toml(text)
        known = {one.name: one.default for one in fields(cls)}
        if extra := sorted(said.keys() - known.keys()):
            raise ValueError(f"{extra[0]}: expected some of {', '.join(known)}")
        facts: dict[str, Any] = {}
        for key, value in said.items():
            value = str(value) if isinstance(value, date) else value
            several = isinstance(known[key], tuple)
            texts = value if several and isinstance(value, list) else [value]
            if not all(isinstance(one, str) and one.strip() and one.isprintable() for one in texts) or not texts:
                raise ValueError(
                    f"{key} = {shown(value)}: expected {'lines of text in a list' if several else 'a text'}"
                )
            facts[key] = tuple(texts) if several else value
        found = cls(**facts)
        if found.sector and found.sector not in _SECTORS:
            raise ValueError(f"sector = {shown(found.sector)}: expected one of {', '.join(_SECTORS)}")
        if found.published and not re.fullmatch(r"\d{4}-\d\d-\d\d", found.published):
            raise ValueError(f"published = {shown(found.published)}: expected a day as YYYY-MM-DD")
        return found

    @property
    def missing(self) -> tuple[str, ...]:
        """Facts that the registry needs and nobody has said."""
        return tuple(key for key in NEEDED if not getattr(self, key))


def registry_schema() -> dict[str, Any]:
    """Load the JSON schema (draft 7) of the entry."""
    found: dict[str, Any] = parse_json(resources.files(__package__).joinpath("registry.schema.json").read_text("utf-8"))
    return found


def registry_entry(result: FitResult, released: Sequence[str], about: About) -> dict[str, Any]:
    """Write the entry of a publication, whose last fit is ``result``.

    ``released`` are phrases for the published quantities. Raises ValueError if the fit is not private, or ``about``
    lacks facts that the registry needs.
    """
    privacy = result.privacy
    if not privacy.private:
        raise ValueError("result: NOT PRIVATE; expected a private fit")
    if about.missing:
        raise ValueError(f"about: has no {', '.join(about.missing)}; expected these facts for the registry")
    unit, basic = privacy.unit, _basic(released, about)
    units = several(unit)
    apart = f"one has one {unit} more" if privacy.relation == Relation.ADD_REMOVE else f"one {unit} has other records"
    accountant = ACCOUNTANTS.get(privacy.accountant)
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", about.name.lower()).strip("-") or "entry",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"Sets of {units}, each with any number of records of the columns that were read.",
                "unprotected_quantities": (
                    f"The number of {units} ({privacy.numbers}), the vocabulary or columns unless purchased, groups of "
                    "tables, and all settings are public. The time that a fit took is not protected."
                ),
            },
            "privacy_loss": {
                "privacy_unit": unit,
                "privacy_unit_details": f"Adjacent are two sets of {units} if {apart}. Each has all its records.",
                "privacy_parameters": {
                    "epsilon": float(rounded_up(privacy.epsilon)),
                    "delta": float(rounded_up(privacy.delta, 3)),
                },
                "privacy_parameters_details": privacy.statement(),
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": (
                    "The curator and the machine of the fit see the records and have to be trusted. Everybody else "
                    "sees the publication, and is assumed to know everything except one unit's records."
                ),
                "release_type": "One release",
                "release_type_details": "Further releases about the same records add to these parameters.",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Topics, names, intervals, shares and trends are functions of the noised releases.",
                "composition": (
                    f"One ledger of all releases, by the accountant {privacy.accountant!r}"
                    f"{f' ({accountant.title})' if accountant else ''}."
                ),
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": (
                    "Settings were planned from public numbers. A vocabulary that was chosen from the records is in "
                    "the ledger."
                ),
                "mechanisms": (
                    "Gaussian mechanism, exactly rounded on a lattice of integers, with fresh keys of the operating "
                    "system (vips_fast). Sums are of integers, so no floating-point error adds to the sensitivity."
                ),
                **({"justification": about.justification} if about.justification else {}),
            },
            "administrative": {
                **({"sources": about.sources} if about.sources else {}),
                "notes": f"Head of the ledger, which stands for all releases: {result.head}",
                "registry_authors": list(about.authors or about.curators),
            },
        },
    }


def _basic(released: Sequence[str], about: About) -> dict[str, Any]:
    when = f" The records: {about.dataset or about.name}{f', {about.date}' if about.date else ''}."
    return {
        "name": about.name,
        "data_curators": list(about.curators),
        "intended_use": about.intended_use,
        "data_product_type": "Machine learning model",
        "data_product_region": about.region,
        "description": f"Released: {'; '.join(released)}.{when}",
        "publication_date": about.published,
        **({"data_product_sector": about.sector} if about.sector else {}),
    }


def registry_yaml(entry: Mapping[str, Any]) -> str:
    """Write an entry as JSON, which is also YAML."""
    return json.dumps(entry, indent=1, ensure_ascii=False) + "\n"
