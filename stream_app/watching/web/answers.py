"""What is at each path. Pure: a path and a token in, an answer out."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from http import HTTPStatus
from importlib.resources import files
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from jinja2 import Environment
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from models.exceptions import TallyguardError
from stream_app.setup.release_settings import CROWD, INFORMED
from stream_app.setup.settings import Settings
from stream_app.watching.html_pages import Part, rendered, templates_of
from stream_app.watching.metrics import HiddenByHour
from stream_app.watching.prior_notes import ceiling_condition
from stream_app.watching.view import (
    ABOUT_NOTHING,
    QUESTION_COLUMNS,
    SEVERAL_QUESTIONS,
    About,
    QuestionFigures,
    error_in_words,
)
from stream_app.watching.web.status import AT_MOST, PeopleBoard, ReleaseLine, Status, StatusBoard
from stream_app.watching.wording import (
    ATTACK,
    DISTANCE,
    DOWN,
    EXACT,
    LEVELS,
    ceiling_in_words,
    change_in_words,
    in_a_hundred,
    level_rows,
    not_reached_in_words,
    sentence_case,
    significant,
)
from stream_app.wire import RiskSummary

logger = logging.getLogger(__name__)

# The state of a running engine as one JSON document: what the page draws. It names no person.


def state_json(
    status: Status, about: Settings | None, *, has_people: bool, more: Mapping[str, Any] | None = None
) -> str:
    """The document; ``has_people`` says whether there is a token to ask for single people with.

    ``more`` is what only a server knows: other runs, whether there is an answer, and what may be asked.
    """
    document = {
        **vars(status),
        "figures": [each.as_json() for each in status.figures],
        "questions": _questions(status.questions),
        "history": [vars(line) for line in status.history],
        "sensors": [vars(line) for line in status.sensors.values()],
        "releases": list(map(_release, status.releases)),
        "hidden": [{"sensor": name, "sigmas": sigmas} for name, sigmas in status.hidden.items()],
        "summary": _summary(status.summary),
        "levels": _levels(status.summary),
        "spread": [ceiling_in_words(each) for each in status.history[-1].risk[:2]] if status.history else [],
        "not_reached": not_reached_in_words(status.summary.not_reached) if status.summary else None,
        "about": _about(about),
        "has_people": has_people,
        **(more or {}),
    }
    try:
        return _text(document)
    except ValueError:  # an infinity somewhere: rare, and costly to look for
        return _text(_finite(document))


def _release(line: ReleaseLine) -> dict[str, Any]:
    return {**vars(line), "off": _off(line.error, line.value)}


_off = lru_cache(2**14)(error_in_words)  # of thousands of sensors many say the same


def _summary(summary: RiskSummary | None) -> dict[str, Any] | None:
    """A summary, without the single draws, and without people."""
    hidden: Any = {"attack": {"parts"}, "worst": True}
    return None if summary is None else summary.model_dump(mode="json", exclude=hidden)


def _levels(summary: RiskSummary | None) -> dict[str, Any] | None:
    if summary is None:
        return None
    head, rows = list(LEVELS), [list(row) for row in level_rows(summary)]
    if summary.crowd is not None:
        head.insert(2, "People by ceiling in the crowd")
        for level, row in zip(summary.at_risk, rows, strict=True):
            row.insert(2, f"{summary.crowd.at_risk.get(level, 0):,}")
    return {"head": head, "rows": rows}


def _questions(found: Sequence[QuestionFigures]) -> dict[str, Any] | None:
    """The headline of each question as a table; None where there is one question."""
    if not found:
        return None
    return {"head": QUESTION_COLUMNS, "rows": [each.row for each in found], "note": SEVERAL_QUESTIONS}


_IN_WORDS: Mapping[str, Callable[[float], str]] = {
    **dict.fromkeys(("risk", "added", "crowd", "most_added", "certified", "then", "now"), ceiling_in_words),
    "baseline": in_a_hundred,
    "certified_drop": lambda drop: change_in_words(-drop),
}


def _with_words(row: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a person, with what the page says of each."""
    known = {name: row[name] for name in _IN_WORDS if row.get(name) is not None}
    return {**row, "said": {name: _IN_WORDS[name](value) for name, value in known.items()}}


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False, default=dict)


_KNOWS = {INFORMED: "where everybody else is", CROWD: "those of all others, but not where they are"}


def _about(settings: Settings | None) -> dict[str, Any] | None:
    if settings is None:
        return None
    return {
        "deployment": settings.deployment,
        "step_seconds": settings.step_seconds,
        "origin_seconds": settings.origin_seconds,
        "timezone": settings.clock,
        "horizon": settings.horizon,
        "mistakes": settings.mistakes,
        "question": (
            "Could somebody who sees everything published, knows a person's habits and "
            f"{_KNOWS[settings.adversary]}, tell "
            f"{settings.asked(settings.question).asks(settings.horizon, settings.mistakes)}?"
        ),
        "delta": settings.delta,
        "confidence": settings.confidence,
        "thresholds": list(settings.thresholds),
        "levels": [(level, in_a_hundred(level, EXACT)) for level in settings.thresholds],
        "condition": ceiling_condition(settings.priors_check, settings.draws),
        "is_raised": settings.priors_check is not None and settings.priors_check.is_too_low,
        "tiles": settings.map_tiles,
    }


def _finite(value: Any) -> Any:
    """The same without infinities, which JSON does not know: null."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# The plain page at ``/plain``: tables only, for browsers without scripts and for reading aloud.

PLAIN_HISTORY = 48  # steps in the table
PLAIN_SENSORS = 50  # in a table


@cache
def _templates() -> Environment:
    return templates_of("stream_app.watching")


def render(status: Status, about: Settings | None = None) -> str:
    """The page as HTML; refreshed every two seconds while the engine runs.

    Steps are shown by their time where ``about`` knows the deployment's origin, else by number.
    """
    refers_to = About.of(about) if about else ABOUT_NOTHING
    parts = _plain_parts(status, refers_to)
    return rendered(_templates(), "plain.html.j2", status=status, condition=refers_to.condition, parts=parts)


def _plain_parts(status: Status, about: About) -> Iterator[Part]:
    summary, when = status.summary if status.people else None, about.times.when
    if summary is not None:
        at = when(summary.step)
        means = [each for each in status.figures if each.name.startswith("last.")]
        yield Part(
            f"Guess, attack and ceiling, after {at}",
            head=[f"Mean {each.label.lower()}" for each in means],
            rows=[[each.shown for each in means]],
            notes=[f"Attack: {ATTACK} {DISTANCE}"],
        )
        unrefined = not_reached_in_words(summary.not_reached)
        notes = [f"Note: {unrefined}."] if unrefined else ()
        yield Part(f"How many people are at risk, after {at}", **(_levels(summary) or {}), notes=notes)
        if asked := _questions(status.questions):
            yield Part("Each question", head=asked["head"], rows=asked["rows"], notes=[asked["note"]])
        yield Part(
            "Distribution of the risk",
            head=["", *(f"{float(part) * 100:g} % of people at or below" for part in summary.risk)],
            rows=[
                (f"Ceiling, {about.condition}", *map(ceiling_in_words, summary.risk.values())),
                ("Guess", *map(in_a_hundred, summary.baseline.values())),
                ("Added risk, at most", *map(ceiling_in_words, summary.added.values())),
            ],
        )
    crowd = None if summary is None else summary.crowd
    if status.crowd:
        unrefined = not_reached_in_words(crowd.not_reached) if crowd else None
        means_of = (crowd.mean_risk, summary.mean_risk, crowd.mean_added) if crowd and summary else ()
        yield Part(
            "Ceilings against an adversary who does not know where the others are",
            [f"{sentence_case(status.crowd)}."],
            head=("Mean ceiling", "Mean ceiling if they are known", "Mean added risk, at most"),
            rows=[[*map(ceiling_in_words, means_of)]] if means_of else (),
            notes=[f"Note: {unrefined}."] if unrefined else (),
        )
    if crowd and (known := _least_hidden(status.hidden)):
        some = f" The {len(known)} of {len(status.hidden):,} sensors where it hides least."
        said = (
            "Noise, in people, that would hide as much: in the hour of the day in which the crowd hides "
            f"least, and in the one in which it hides most.{some if len(known) < len(status.hidden) else ''}"
        )
        yield Part("How much the crowd hides", [said], head=("Sensor", "Least", "Most"), rows=known)
    if status.history and status.people:
        yield Part(
            "The last steps",
            head=("Step", "Counts published", "Suppressed", "Mean guess", "Mean attack", "Mean ceiling"),
            rows=[
                (
                    *(when(line.step), str(line.published), str(line.suppressed)),
                    in_a_hundred(line.mean_baseline),
                    "not measured" if line.attack is None else in_a_hundred(line.attack[0]),
                    ceiling_in_words(line.mean_risk),
                )
                for line in reversed(status.history[-PLAIN_HISTORY:])
            ],
        )
    if status.spent:
        yield Part("Differential privacy spent", head=("Sensors", "Epsilon"), rows=status.spent_rows)


def _least_hidden(hidden: HiddenByHour) -> list[tuple[str, ...]]:
    """What the crowd hides by sensor, at its least and its most; of very many those where it hides least."""
    known = {name: [each for each in sigmas if each is not None] for name, sigmas in hidden.items()}
    if len(known) > PLAIN_SENSORS:
        known = dict(sorted(known.items(), key=lambda each: min(each[1]))[:PLAIN_SENSORS])
    return [
        (sensor, *(significant(end, 2, DOWN) if end else "nobody" for end in (min(sigmas), max(sigmas))))
        for sensor, sigmas in known.items()
    ]


_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_HTML = "text/html; charset=utf-8"
_NOTHING_ELSE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_LIVE = f"{_NOTHING_ELSE}; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
_PLAIN = f"{_NOTHING_ELSE}; style-src 'unsafe-inline'"
_KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
_STATIC = {"/": ("page.html", _HTML)} | {
    f"/{each.name}": (each.name, _KINDS[each.name.rpartition(".")[2]])
    for each in (files("stream_app.watching.web") / "static").iterdir()
    if each.name.rpartition(".")[2] in _KINDS
}
_PATHS = (
    *("/", "/plain", "/state.json", "/answer.json", "/step.json", "/week.json", "/plan.json", "/events"),
    *("/people.json", "/devices.json", "/metrics", "/runbooks/", "/-/healthy", "/-/ready"),
)
_PEOPLE, _DEVICES = "/people.json", "/devices.json"
_RUNBOOKS = "/runbooks/"
_PLAN = "/plan.json"
TAKE = "/take"
"""Where a plan is taken: the only path that is sent something, by the holder of the token."""
PLAN_PATHS = (_PLAN, TAKE)
PEOPLE_PATHS = (_PEOPLE, "/why.json", _DEVICES, *PLAN_PATHS)
_REFUSALS = {
    HTTPStatus.BAD_REQUEST: "the request cannot be read",
    HTTPStatus.METHOD_NOT_ALLOWED: "only GET and HEAD are answered here, and POST where a plan is taken",
    HTTPStatus.MISDIRECTED_REQUEST: "this server does not answer to this host name; add it to listen_names",
    HTTPStatus.REQUEST_TIMEOUT: "the request took too long",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "a request here has no body",
    HTTPStatus.TOO_MANY_REQUESTS: "too many live pages from one address; close one",
    HTTPStatus.SERVICE_UNAVAILABLE: "too many connections; try again later",
}


UNREADABLE = (
    "The run's records cannot be read now: `tallyguard verify` says whether anything is wrong with them."
)


class WebAnswer(NamedTuple):
    """Status, kind and bytes of a response, and what a browser may load with it.

    A client that has the body named ``etag`` already need not be sent it again.
    """

    status: HTTPStatus
    content_type: str
    body: bytes
    policy: str = _NOTHING_ELSE
    etag: str = ""


class Planner(Protocol):
    """Answers what-if questions, and takes plans; for the holder of the token only."""

    def answer(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What a plan would do; a :class:`TallyguardError` says why it cannot be answered."""

    def take(self, query: Mapping[str, str], by: str, reason: str) -> dict[str, Any]:
        """Write the plan's settings and its record."""


class Site(NamedTuple):
    """Everything that may be shown; ``answer`` reads the run's verdict, ``others`` are runs beside it."""

    registry: CollectorRegistry
    board: StatusBoard
    people: PeopleBoard | None
    about: Settings | None
    answer: Callable[[], Mapping[str, Any]] | None = None
    planner: Planner | None = None
    name: str = ""
    others: tuple[str, ...] = ()


def path_of(target: str) -> str | None:
    """The path a request's target names; None for one that cannot be read."""
    try:
        return urlsplit(target).path
    except ValueError:
        return None


def respond(
    target: str,
    authorization: str,
    site: Site,
    body: bytes = b"",
    verdict: Mapping[str, Any] | None = None,
) -> WebAnswer:
    """The answer to a request for ``target`` with this ``Authorization``, and the ``body`` of a POST.

    ``verdict`` is what the site's answer said last, which the page begins with; None before it was read.
    """
    path = path_of(target)
    if path is None:
        return refusal(HTTPStatus.BAD_REQUEST)
    if path in _STATIC:
        name, content_type = _STATIC[path]
        found, etag = _static(name)
        return WebAnswer(HTTPStatus.OK, content_type, found, _policy(site), etag)
    if path.startswith(_RUNBOOKS):
        return _runbook(path.removeprefix(_RUNBOOKS))
    query = {name: values[0] for name, values in parse_qs(urlsplit(target).query, True).items()}
    if path in PEOPLE_PATHS:
        return _people(path, query, authorization, site, body)
    if path == "/step.json":
        return _step(query.get("step", ""), site.board)
    if path == "/week.json":
        names = list(site.board.read().sensors)
        chosen = [names[each] for each in _indices(query.get("sensors", "")) if each < len(names)]
        return WebAnswer(HTTPStatus.OK, _JSON, _text(site.board.week(chosen)).encode())
    return _public(path, site, verdict)


def _policy(site: Site) -> str:
    tiles = urlsplit(site.about.map_tiles) if site.about is not None and site.about.map_tiles else None
    if tiles is None or not tiles.netloc:
        return _LIVE
    return _LIVE.replace("img-src 'self'", f"img-src 'self' {tiles.scheme}://{tiles.netloc}")


def _indices(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each.isdecimal() and len(each) < 8]


def _step(text: str, board: StatusBoard) -> WebAnswer:
    found = board.past(int(text)) if text.isdecimal() and len(text) < 12 else None
    if found is None:
        return _as_json(HTTPStatus.NOT_FOUND, {"error": "this step is not kept here"})
    document = {
        **found,
        "releases": list(map(_release, found["releases"])),
        "summary": _summary(found["summary"]),
        "levels": _levels(found["summary"]),
        "figures": [each.as_json() for each in found["figures"]],
        "questions": _questions(found["questions"]),
    }
    return WebAnswer(HTTPStatus.OK, _JSON, _text(_finite(document)).encode())


def refusal(status: HTTPStatus) -> WebAnswer:
    """Why a request is not answered, in a few words."""
    return _as_json(status, {"error": _REFUSALS.get(status, status.phrase)})


def _public(path: str, site: Site, verdict: Mapping[str, Any] | None) -> WebAnswer:
    status = site.board.read()
    if path == "/metrics":
        return WebAnswer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(site.registry))
    if path == "/-/healthy":
        return _probe(status.is_healthy, status.phase, status.reason)
    if path == "/-/ready":
        return _probe(status.is_ready, status.phase, status.reason)
    if path == "/plain":
        return WebAnswer(HTTPStatus.OK, _HTML, render(status, site.about).encode(), _PLAIN)
    if path == "/state.json":
        more = {
            "name": site.name,
            "runs": site.others,
            "has_answer": site.answer is not None,
            "answer": verdict,
            "has_plans": site.planner is not None,
        }
        picture = state_json(status, site.about, has_people=site.people is not None, more=more).encode()
        return WebAnswer(HTTPStatus.OK, _JSON, picture, etag=_etag(picture))
    if path == "/answer.json" and site.answer is not None:
        return _as_json(HTTPStatus.OK, _verdict(site.answer))
    return _as_json(HTTPStatus.NOT_FOUND, {"error": "nothing is here", "paths": _PATHS})


def _verdict(answer: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    try:
        return answer()
    except (TallyguardError, OSError) as error:
        logger.warning("the page has no answer: %s", error)
        nothing = dict.fromkeys(("rule", "change", "covers"), "–")
        return {"state": "not shown", "sentence": UNREADABLE, **nothing, "record": None, "steps": 0}


def _people(path: str, query: Mapping[str, str], authorization: str, site: Site, body: bytes) -> WebAnswer:
    """Single people, suspected devices and plans, for the holder of the token only."""
    if site.people is None:
        return _as_json(
            HTTPStatus.FORBIDDEN,
            {"error": "no page_token is set, so single people and suspected devices are not shown"},
        )
    kind = authorization.partition(" ")[0].lower()  # the scheme's name is written in any case (RFC 9110)
    if not site.people.allows(authorization[len("bearer ") :] if kind == "bearer" else authorization):
        return _as_json(
            HTTPStatus.UNAUTHORIZED, {"error": "send the deployment's page_token as a Bearer token"}
        )
    if path == _DEVICES:
        return _as_json(HTTPStatus.OK, site.people.devices())
    if path in PLAN_PATHS:
        return _planned(path, query, site.planner, body)
    if path == _PEOPLE:
        return _exposed(query, site.people)
    explanation = site.people.why(unquote(query.get("person", "")))
    if explanation is None:
        return _as_json(HTTPStatus.NOT_FOUND, {"error": "no person has this pseudonym"})
    past = explanation["hindsight"]
    words = {
        "shares": list(map(_with_words, explanation["shares"])),
        "hindsight": past and _with_words(past),
    }
    return _as_json(HTTPStatus.OK, {**_with_words(explanation), **words})


def _runbook(name: str) -> WebAnswer:
    """What to do about an alert, as it stands in the documentation; without a name the names there are."""
    runbooks: dict[str, str] = json.loads(_static("runbooks.json")[0])
    if not name:
        return WebAnswer(HTTPStatus.OK, _TEXT, "".join(f"{each}\n" for each in runbooks).encode())
    if name not in runbooks:
        return _as_json(HTTPStatus.NOT_FOUND, {"error": "no runbook has this name", "names": list(runbooks)})
    return WebAnswer(HTTPStatus.OK, _TEXT, runbooks[name].encode())


def _planned(path: str, query: Mapping[str, str], planner: Planner | None, body: bytes) -> WebAnswer:
    if planner is None:
        return _as_json(HTTPStatus.FORBIDDEN, {"error": "what-if needs the run's priors"})
    try:
        if path == _PLAN:
            return _as_json(HTTPStatus.OK, _finite(planner.answer(query)))
        document = json.loads(body or b"null")
        if not isinstance(document, dict) or not all(isinstance(each, str) for each in document.values()):
            return _as_json(HTTPStatus.BAD_REQUEST, {"error": "send a plan as a JSON object of texts"})
        by, reason = (document.pop(name, "") for name in ("by", "reason"))
        return _as_json(HTTPStatus.OK, planner.take(document, by, reason))
    except TallyguardError as error:
        return _as_json(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error)})
    except ValueError:
        return _as_json(HTTPStatus.BAD_REQUEST, {"error": "what was sent must be JSON"})


def _exposed(query: Mapping[str, str], people: PeopleBoard) -> WebAnswer:
    try:
        level = float(query.get("threshold", "0.5"))
    except ValueError:
        level = float("nan")
    if not 0.0 <= level <= 1.0:
        return _as_json(HTTPStatus.BAD_REQUEST, {"error": "threshold must be a number in 0..1"})
    first = next(iter(_indices(query.get("first", ""))), 0)
    size = next(iter(_indices(query.get("size", ""))), AT_MOST)
    found = people.exposed(level, query.get("find", "").strip().lower(), first, size)
    words = {"said": in_a_hundred(level, EXACT), "people": list(map(_with_words, found["people"]))}
    return _as_json(HTTPStatus.OK, {**found, **words})


def _probe(is_good: bool, phase: str, reason: str) -> WebAnswer:
    status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
    return _as_json(status, {"ok": is_good, "phase": phase, "reason": reason})


def _as_json(status: HTTPStatus, document: object) -> WebAnswer:
    return WebAnswer(status, _JSON, json.dumps(document).encode())


@cache
def _static(name: str) -> tuple[bytes, str]:
    body = (files("stream_app.watching.web") / "static" / name).read_bytes()
    return body, _etag(body)


def _etag(body: bytes) -> str:
    return f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
