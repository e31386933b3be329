"""What there is of a kind by its name: ours, what installed packages offer, and what a user registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from models.exceptions import ArgumentError, TallyguardError

Item = TypeVar("Item")


class Registry(Mapping[str, Item], Generic[Item]):
    """All of one ``kind`` by name: ours in their order, then others' as they were registered.

    A package offers its own as entry points of the group ``tallyguard.<kind>s``, which are loaded when
    somebody first asks what there is. ``take`` makes one of what a package offers under a name and raises a
    :class:`~models.exceptions.TallyguardError` for what cannot be one.
    """

    def __init__(self, kind: str, ours: Mapping[str, Item], take: Callable[[str, object], Item]) -> None:
        self.kind, self.group = kind, f"tallyguard.{kind}s"
        self._ours, self._take = dict(ours), take
        self._others: dict[str, Item] = {}
        self._is_loaded = False

    def register(self, name: str, item: Item) -> None:
        """Add or replace one that is not ours; :class:`ArgumentError` for a name of ours."""
        self._load()
        self._add(name, item)

    def remove(self, name: str) -> None:
        """Take back what was registered; :class:`ArgumentError` for any other name."""
        if name not in self.own:
            raise ArgumentError(
                f"a {self.kind} that is taken back must have been registered",
                repr(name),
                f"name one of {', '.join(self.own)}" if self.own else "none is registered",
            )
        del self._others[name]

    @property
    def own(self) -> Mapping[str, Item]:
        """Those that are not ours."""
        self._load()
        return self._others

    def __getitem__(self, name: str) -> Item:
        return self._ours[name] if name in self._ours else self.own[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self._ours, *self.own))

    def __len__(self) -> int:
        return len(self._ours) + len(self.own)

    def _add(self, name: str, item: Item) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError(
                f"the name of a {self.kind} must be letters, digits and underscores", repr(name), "rename it"
            )
        if name in self._ours:
            raise ArgumentError(
                f"a {self.kind} of your own must have a name of its own",
                f"{name!r}, which is one of {', '.join(self._ours)}",
                "rename it",
            )
        self._others[name] = item

    def _load(self) -> None:
        if self._is_loaded:
            return
        self._is_loaded = True  # first: what is loaded may register something itself
        from importlib.metadata import entry_points

        for each in entry_points(group=self.group):
            try:
                self._add(each.name, self._take(each.name, each.load()))
            except Exception as error:
                package = each.dist.name if each.dist else "an installed package"
                said = (
                    str(error) if isinstance(error, TallyguardError) else f"{type(error).__name__}: {error}"
                )
                raise ArgumentError(
                    f"{self.kind} {each.name!r} of {package} must be usable",
                    said,
                    "mend or uninstall the package",
                ) from error
