"""A record of exported data for catalogues: DCAT-AP 3, and mobilityDCAT-AP 1.1 where places are known.

JSON-LD with a context of its own, so that a portal harvests it without asking anybody. It says what
``datapackage.json`` says, in the catalogues' words: noise and unit of privacy, the ceiling of the period with
its condition, rhythm and intervals. Times are those of the data, never of the clock: equal data, equal bytes.

Sources: DCAT-AP 3.0.0, https://semiceu.github.io/DCAT-AP/releases/3.0.0; mobilityDCAT-AP 1.1.0,
https://w3id.org/mobilitydcat-ap/releases/1.1.0; measurements by https://www.w3.org/TR/vocab-dqv.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlsplit

from stream_app.exceptions import InputError

CATALOGUE = "catalogue.jsonld"
"""The file of the record."""

_EU = "http://publications.europa.eu/resource/authority"
_MOBILITY = "https://w3id.org/mobilitydcat-ap"
_CONTEXT = {
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "dqv": "http://www.w3.org/ns/dqv#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geo": "http://www.opengis.net/ont/geosparql#",
    "mobilitydcatap": f"{_MOBILITY}#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_FORMATS = {
    "csv": ("CSV", "text/csv"),
    "parquet": ("PARQUET", "application/vnd.apache.parquet"),
    "geojson": ("GEOJSON", "application/geo+json"),
    "jsonld": ("JSON_LD", "application/ld+json"),
}


class Rhythm(StrEnum):
    """How often the files are written again, by the names of the European Union's list."""

    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    CONTINUAL = "update_cont"
    IRREGULAR = "irreg"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the files will be found, whom to ask about them, and how often they are written again."""

    folder: str
    contact: str | None = None
    rhythm: Rhythm = Rhythm.UNKNOWN

    def __post_init__(self) -> None:
        parts = urlsplit(self.folder)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise InputError(
                "the address of a catalogue record must be that of a folder on the web",
                self.folder,
                "write --catalogue https://data.example.org/counts",
            )

    def of(self, name: str) -> str:
        """The address of a file."""
        return f"{self.folder.rstrip('/')}/{quote(name)}"


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure of the record, with what it means; None where it was not computed, or is infinite."""

    name: str
    value: float | None
    meaning: str


def catalogue(
    address: Address,
    publisher: str,
    package: Mapping[str, Any],
    files: Sequence[str],
    times: tuple[datetime, datetime, datetime],
    mechanisms: Iterable[str],
    measured: Sequence[Measured],
    places: Iterable[tuple[float, float]],
) -> dict[str, Any]:
    """The record of these files; ``package`` is their Frictionless description.

    ``times`` are the beginning of the period, the end of its first step, since when a record can be, and its
    end.
    """
    home = address.of(CATALOGUE)
    title = package["title"]
    start, created, end = (_typed(f"{each:%Y-%m-%dT%H:%M:%SZ}", "dateTime") for each in times)
    licence = _licence(package)
    spatial = _location(list(places))
    agent = {"@id": f"{home}#publisher", "@type": "foaf:Agent", "foaf:name": publisher}
    whose = {"dct:publisher": {"@id": agent["@id"]}, **spatial}
    stated = [each for each in measured if each.value is not None]
    missing = [each.meaning for each in measured if each.value is None]
    dataset = {
        "@id": f"{home}#dataset",
        "@type": "dcat:Dataset",
        "dct:title": _text(title),
        "dct:description": _text(package["description"]),
        **whose,
        "dct:identifier": f"{home}#dataset",
        "dcat:keyword": [_text(word) for word in ("people counts", "pedestrians", "differential privacy")],
        "dcat:theme": _concept(f"{_EU}/data-theme/TRAN", "Transport"),
        "mobilitydcatap:mobilityTheme": _concept(f"{_MOBILITY}/mobility-theme/other", "Other"),
        "dct:accrualPeriodicity": _of(f"{_EU}/frequency/{address.rhythm.upper()}", "dct:Frequency"),
        "dcat:temporalResolution": _typed(f"PT{package['step_seconds']}S", "duration"),
        "dct:temporal": {"@type": "dct:PeriodOfTime", "dcat:startDate": start, "dcat:endDate": end},
        "dct:modified": end,
        "dct:language": _of(f"{_EU}/language/ENG", "dct:LinguisticSystem"),
        "dct:provenance": {
            "@type": "dct:ProvenanceStatement",
            "rdfs:label": _text(_provenance(mechanisms, package, missing)),
        },
        "dqv:hasQualityMeasurement": [_measurement(home, each) for each in stated],
        "dcat:distribution": [{"@id": f"{home}#{quote(name)}"} for name in files],
        **_contact(address, publisher),
    }
    if spatial:
        georeferenced = f"{_MOBILITY}/georeferencing-method/geocoordinates"
        dataset["mobilitydcatap:georeferencingMethod"] = _concept(georeferenced, "Geocoordinates")
    profiles = ["http://data.europa.eu/r5r/", *([f"{_MOBILITY}/releases/1.1.0/"] if spatial else [])]
    record = {
        "@id": f"{home}#record",
        "@type": "dcat:CatalogRecord",
        "foaf:primaryTopic": {"@id": dataset["@id"]},
        "dct:created": created,
        "dct:issued": created,
        "dct:modified": end,
        "dct:language": dataset["dct:language"],
        "dct:conformsTo": _of(profiles[-1], "dct:Standard"),
    }
    whole = {
        "@id": f"{home}#catalogue",
        "@type": "dcat:Catalog",
        "dct:title": _text(title),
        "dct:description": _text(f"What {publisher} publishes of {title}."),
        **whose,
        "foaf:homepage": _of(address.folder, "foaf:Document"),
        "dct:language": dataset["dct:language"],
        "dct:issued": created,
        "dct:modified": end,
        "dcat:dataset": {"@id": dataset["@id"]},
        "dcat:record": {"@id": record["@id"]},
        **licence,
    }
    metrics = [_metric(home, each) for each in stated]
    distributions = [_distribution(address, home, name, licence) for name in files]
    return {"@context": _CONTEXT, "@graph": [whole, record, dataset, *distributions, agent, *metrics]}


def _provenance(mechanisms: Iterable[str], package: Mapping[str, Any], missing: Sequence[str]) -> str:
    return " ".join(
        (
            f"Counts were released with: {'; '.join(mechanisms)}.",
            f"Ceiling of the period: {package['ceiling']['condition']}.",
            f"May this be published? {package['verdict']['sentence']}",
            package["intervals"]["meaning"],
            *(f"Not stated, as it was not computed or is not finite: {each}." for each in missing),
        )
    )


def _distribution(address: Address, home: str, name: str, licence: Mapping[str, Any]) -> dict[str, Any]:
    kind, media = _FORMATS[name.rpartition(".")[2]]
    condition = "licence-provided" if licence else "other"
    return {
        "@id": f"{home}#{quote(name)}",
        "@type": "dcat:Distribution",
        "dct:title": _text(name),
        "dct:description": _text(
            f"A table or a document of the data, described in {address.of('datapackage.json')}."
        ),
        "dcat:accessURL": _of(address.of(name), "rdfs:Resource"),
        "dcat:downloadURL": _of(address.of(name), "rdfs:Resource"),
        "dct:format": _of(f"{_EU}/file-type/{kind}", "dct:MediaTypeOrExtent"),
        "dcat:mediaType": _of(f"https://www.iana.org/assignments/media-types/{media}", "dct:MediaType"),
        "mobilitydcatap:mobilityDataStandard": _of(
            f"{_MOBILITY}/mobility-data-standard/other", "mobilitydcatap:MobilityDataStandard"
        ),
        "dct:rights": {
            "@type": "dct:RightsStatement",
            "dct:type": _concept(
                f"{_MOBILITY}/conditions-for-access-and-usage/{condition}", condition.replace("-", " ")
            ),
        },
        **licence,
    }


def _measurement(home: str, each: Measured) -> dict[str, Any]:
    return {
        "@type": "dqv:QualityMeasurement",
        "dqv:computedOn": {"@id": f"{home}#dataset"},
        "dqv:isMeasurementOf": {"@id": f"{home}#{quote(each.name)}"},
        "dqv:value": _typed(repr(each.value), "double"),
    }


def _metric(home: str, each: Measured) -> dict[str, Any]:
    return {
        "@id": f"{home}#{quote(each.name)}",
        "@type": "dqv:Metric",
        "skos:prefLabel": _text(each.name),
        "skos:definition": _text(each.meaning),
        "dqv:expectedDataType": {"@id": "xsd:double"},
        "dqv:inDimension": _of(f"{home}#privacy-and-accuracy", "dqv:Dimension"),
    }


def _licence(package: Mapping[str, Any]) -> dict[str, Any]:
    names = [each["name"] for each in package.get("licenses", ())]
    return (
        {"dct:license": _of(f"https://spdx.org/licenses/{quote(names[0])}", "dct:LicenseDocument")}
        if names
        else {}
    )


def _contact(address: Address, publisher: str) -> dict[str, Any]:
    if address.contact is None:
        return {}
    mail = _of(f"mailto:{quote(address.contact, safe='@+')}", "owl:Thing")
    return {"dcat:contactPoint": {"@type": "vcard:Kind", "vcard:fn": publisher, "vcard:hasEmail": mail}}


def _location(places: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """The box that the sensors lie in; none where no place is known."""
    if not places:
        return {}
    (west, east), (south, north) = ((min(axis), max(axis)) for axis in zip(*places, strict=True))
    corners = ((west, south), (east, south), (east, north), (west, north), (west, south))
    box = f"POLYGON(({', '.join(f'{x:g} {y:g}' for x, y in corners)}))"
    return {"dct:spatial": {"@type": "dct:Location", "dcat:bbox": {"@value": box, "@type": "geo:wktLiteral"}}}


def _text(words: str) -> dict[str, str]:
    return {"@value": words, "@language": "en"}


def _typed(value: str, kind: str) -> dict[str, str]:
    return {"@value": value, "@type": f"xsd:{kind}"}


def _of(iri: str, kind: str) -> dict[str, Any]:
    """A thing by its address, with its class, which harvesters ask for."""
    return {"@id": iri, "@type": kind}


def _concept(iri: str, label: str) -> dict[str, Any]:
    return {**_of(iri, "skos:Concept"), "skos:prefLabel": _text(label)}
