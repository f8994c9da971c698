"""What the words of a command mean: KIND, KINDs, KIND/NAME, KIND NAME."""

from dataclasses import dataclass

from penstock.control.kinds import KINDS, Kind, kind_of_word
from penstock.errors import Misused


@dataclass(frozen=True)
class Target:
    kind: Kind
    name: str | None = None

    @property
    def shown(self) -> str:
        return f"{self.kind.name.lower()}/{self.name}"


def targets(word: str, names: list[str]) -> list[Target]:
    """``brokers``, ``broker,trigger``, ``all``, ``broker orders bills``, ``broker/orders trigger/audit``."""
    if "/" in word:
        return [one(each) for each in [word, *names]]
    kinds = list(KINDS) if word == "all" else [kind_of_word(each) for each in word.split(",") if each]
    if names and len(kinds) != 1:
        raise Misused("names can be given for one kind only", hint=f"penstock get {kinds[0].name.lower()} {names[0]}")
    return [Target(kinds[0], name) for name in names] if names else [Target(kind) for kind in kinds]


def one(text: str) -> Target:
    """``KIND/NAME``."""
    word, slash, name = text.partition("/")
    if not slash or not name or "/" in name:
        raise Misused(f'"{text}" is not KIND/NAME', hint="for instance broker/orders")
    return Target(kind_of_word(word), name)


def named(word: str, names: list[str]) -> list[Target]:
    """The same where names are required."""
    found = targets(word, names)
    if any(each.name is None for each in found):
        raise Misused(f'"{word}" needs a name', hint=f"{found[0].kind.name.lower()}/NAME, or `penstock get {word}`")
    return found
