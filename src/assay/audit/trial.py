"""Which two nodes try which directories together, by what the audit has read. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from assay.facts.mounts import Mount, Mounts
from assay.launch.slurm_script import Group
from assay.profiles.host import FileSystems

AT_MOST = 4
_NOBODYS = ("", "/", "/root")


class Seen(Struct, frozen=True):
    """What one node, or the login node, has mounted, and where its user's home lies."""

    mounts: Mounts = Mounts()
    home: str = ""

    def under(self, path: str) -> Mount | None:
        """The mount that a path lies on."""
        return next(iter(self.mounts.holding([path])), None)


class Place(Struct, frozen=True):
    """A directory to try, with what most nodes have there."""

    path: str
    fstype: str = ""
    source: str = ""


class Trial(Struct, frozen=True):
    """Two nodes, in one job, and what they try. `ssh` = they also go to each other."""

    group: Group
    places: tuple[Place, ...]
    ssh: bool = False


def places(nodes: Mapping[str, Seen], known: FileSystems) -> tuple[Place, ...]:
    """The user's home and the shared file systems that can be written, those of most nodes first; root has no home."""
    homes = Counter(seen.home for seen in nodes.values() if seen.home not in _NOBODYS)
    found = [path for path, _ in homes.most_common(1)]
    held = {mount.target for seen in nodes.values() for path in found if (mount := seen.under(path))}
    shares = Counter(mount.target for seen in nodes.values() for mount in _shares(seen.mounts, known))
    found += [path for path, _ in sorted(shares.items(), key=lambda share: (-share[1], share[0])) if path not in held]
    return tuple(_place(path, nodes) for path in found[:AT_MOST])


def _shares(mounts: Mounts, known: FileSystems) -> Iterable[Mount]:
    kinds = known.parallel | known.network
    last = {m.target: m for m in mounts.mounts}
    return [
        m
        for m in last.values()
        if m.fstype in kinds and not m.read_only and not m.target.startswith("/var/lib/kubelet")
    ]


def _place(path: str, nodes: Mapping[str, Seen]) -> Place:
    seen = Counter((m.fstype, m.source) for found in nodes.values() if (m := found.under(path)))
    fstype, source = seen.most_common(1)[0][0] if seen else ("", "")
    return Place(path, fstype, source)


def pair(groups: Sequence[Group], nodes: Mapping[str, Seen], wanted: Sequence[Place]) -> Group | None:
    """Two nodes that one job can take, one of them an odd one where there is one: it has something else mounted."""
    looks = {
        node: tuple((m.fstype, m.source, m.root, m.target) if (m := seen.under(p.path)) else None for p in wanted)
        for node, seen in nodes.items()
    }
    usual = Counter(looks.values()).most_common(1)[0][0] if looks else None
    best: Group | None = None
    for group in groups:
        members = [node for node in group.nodes if node in looks]
        if len(members) < 2:
            continue
        odd = next((node for node in members if looks[node] != usual), "")
        other = next((node for node in members if looks[node] == usual and node != odd), members[0])
        if odd and odd != other:
            return _of(group, members, odd, other)
        best = best or _of(group, members, members[0], members[-1])
    return best


def _of(group: Group, members: Sequence[str], *two: str) -> Group:
    nodes = tuple(node for node in members if node in two)
    return Group(nodes, group.partition, group.gres, group.wait)
