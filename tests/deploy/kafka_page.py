"""The tables of ``docs/reference/kafka-topics.md``, from the topics and roles themselves.

``python -m tests.deploy.kafka_page`` writes them into a checkout; a test fails while they are out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from stream_app.kafka.broker.topic_checks import Role, roles
from stream_app.kafka.broker.topics import DAY_MILLISECONDS, FOREVER, TopicPlan, Topics

PAGE = Path("docs/reference/kafka-topics.md")
_COMMAND = "python -m tests.deploy.kafka_page"
_EXAMPLE = Topics(partitions=4, tiers=("city",), has_revised=True, watches_devices=True)
_REGIONS = Topics(partitions=4, has_revised=True, watches_devices=True, regions=("north", "south"))
_DOCUMENTED_ELSEWHERE = (  # in the column of how long, or below the table, as they are the same for all
    *("cleanup.policy", "retention.ms", "retention.bytes"),
    *("min.insync.replicas", "unclean.leader.election.enable"),
)


def topics_table(topics: Topics, known: Topics | None = None) -> str:
    """Every topic: partitions, how long records are kept, other settings, contents, readers.

    Without those that a ``known`` deployment has in the same form.
    """
    shown = [plan for plan in topics.plans() if known is None or plan not in known.plans()]
    rows = (
        (
            f"`{plan.name}`",
            str(plan.partitions),
            _kept(plan),
            ", ".join(f"`{each}`" for each in _other_settings(plan)),
            plan.holds,
            plan.readers,
        )
        for plan in shown
    )
    return _table(("topic", "partitions", "kept", "settings besides", "holds", "who may read it"), rows)


def access_table(topics: Topics, known: Topics | None = None) -> str:
    """Every role that a ``known`` deployment does not have: what it may read and write, its ids."""
    head = ("user", "who that is", "reads", "writes", "group", "transactional id")
    shown = [role for role in roles(topics) if known is None or role not in roles(known)]
    return _table(head, map(_role_row, shown))


def refreshed(page: str, tables: Mapping[str, str]) -> str:
    """A page with each table between its two markers replaced."""
    for name, table in tables.items():
        begin, end = f"<!-- {name}: made by `{_COMMAND}`, checked by a test -->", f"<!-- end of {name} -->"
        block = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        page = block.sub(lambda _, text=f"{begin}\n\n{table}\n{end}": text, page)  # type: ignore[misc]
    return page


def tables() -> dict[str, str]:
    """Every table by the name of its markers."""
    one_region = Topics(partitions=_REGIONS.partitions, has_revised=True, watches_devices=True)
    return {
        "topics": topics_table(_EXAMPLE),
        "access": access_table(_EXAMPLE),
        "topics of regions": topics_table(_REGIONS, one_region),
        "access of regions": access_table(_REGIONS, one_region),
    }


def _role_row(role: Role) -> Sequence[str]:
    return (
        f"`{role.name}`",
        role.purpose,
        _names(role.reads),
        _names(role.writes),
        _names([role.group] if role.group else ()),
        _names(role.transactional_ids),
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _kept(plan: TopicPlan) -> str:
    """How long a record stays, in words."""
    policy = plan.configuration["cleanup.policy"]
    if policy == "compact":
        return "the last of each key"
    milliseconds = plan.configuration["retention.ms"]
    if milliseconds == FOREVER:
        return "for ever"
    days = int(milliseconds) // DAY_MILLISECONDS
    kept = f"{days} day{'s' if days > 1 else ''}"
    return f"the last of each key, {kept} at most" if "compact" in policy else kept


def _other_settings(plan: TopicPlan) -> Iterable[str]:
    return (f"{key}={value}" for key, value in plan.configuration.items() if key not in _DOCUMENTED_ELSEWHERE)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Write the tables into the page below the current folder."""
    PAGE.write_text(refreshed(PAGE.read_text(), tables()))
    print(PAGE)


if __name__ == "__main__":
    main()
