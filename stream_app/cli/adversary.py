"""Who ceilings hold against: the options of commands, and what is said of the answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from accounting.exposure.crowd import CrowdAdversary
    from stream_app.setup.settings import Settings


INFORMED, CROWD = "informed", "crowd"

AdversaryOption = Annotated[
    str | None,
    typer.Option(
        metavar="<informed|crowd>",
        help="Whether the adversary knows where everybody else is, as by default, or only how they live.",
    ),
]
KnownOption = Annotated[
    int, typer.Option(min=0, help="With --adversary crowd: people whose movements are known all the same.")
]
CompanionsOption = Annotated[
    int, typer.Option(min=0, help="With --adversary crowd: people who always move with the one audited.")
]
AloneOption = Annotated[
    float,
    typer.Option(
        min=0.0,
        max=1.0,
        help="With --adversary crowd: share of the people, at each sensor, who move alone.",
    ),
]


def crowd_adversary(name: str | None, known: int, companions: int, alone: float) -> CrowdAdversary | None:
    """None for the informed adversary; a sentence for another name, or for options that say nothing."""
    if name not in (None, INFORMED, CROWD):
        raise typer.BadParameter(f"--adversary must be {INFORMED} or {CROWD}, got {name!r}")
    if name != CROWD:
        if (known, companions, alone) != (0, 0, 1.0):
            raise typer.BadParameter("--known, --companions and --alone need --adversary crowd")
        return None
    from accounting.exposure.crowd import CrowdAdversary

    return CrowdAdversary(known, companions, alone)


def with_adversary(settings: Settings, name: str | None, given: CrowdAdversary | None) -> Settings:
    """The settings against the adversary who was named; as they are where none was.

    Whom that adversary knows is what was ``given``; where that is nothing, what the settings say.
    """
    if name is None:
        return settings
    if given is None:
        crowd = settings.crowd.model_copy(update={"on": False})
    else:
        said = asdict(given) if given != type(given)() else {}
        crowd = settings.crowd.model_copy(update={"on": True, **said})
    return settings.model_copy(update={"adversary": name, "crowd": crowd})


def refuse_beside_crowd(adversary: CrowdAdversary | None, **options: object) -> None:
    """A sentence for options whose answer is the informed adversary's alone."""
    given = [f"--{name}" for name, value in options.items() if value not in (None, False)]
    if adversary is not None and given:
        raise typer.BadParameter(
            f"{', '.join(given)} cannot be combined with --adversary crowd; ask with --adversary informed"
        )


def crowd_document(adversary: CrowdAdversary, others: int) -> dict[str, Any]:
    """The field ``crowd`` of an audit."""
    from stream_app.watching.prior_notes import crowd_note

    return {
        "crowd": {
            "others": others,
            "known": adversary.known,
            "companions": adversary.companions,
            "alone": adversary.alone,
            "condition": crowd_note(adversary, others),
        }
    }
