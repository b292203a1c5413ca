"""Which two nodes try which directories."""

from assay.audit.trial import AT_MOST, Place, Seen, pair, places
from assay.facts.mounts import Mount, Mounts
from assay.launch.slurm_script import Group
from assay.profiles import Profiles
from assay.profiles.host import Host

KNOWN = Profiles().get(Host).filesystems
ROOT = Mount(target="/", source="/dev/sda1", fstype="ext4")
NFS = Mount(target="/home", source="10.0.0.5:/home", fstype="nfs4")
LUSTRE = Mount(target="/lustre", source="10.1.0.2@o2ib:/fs", fstype="lustre")


def seen(*mounts: Mount, home: str = "/home/alice") -> Seen:
    return Seen(Mounts(mounts=(ROOT, *mounts)), home)


def paths(*nodes: Seen) -> list[str]:
    return [place.path for place in places({f"n{i}": node for i, node in enumerate(nodes)}, KNOWN)]


def test_the_home_and_other_shared_file_systems() -> None:
    assert places({"n1": seen(NFS, LUSTRE)}, KNOWN) == (
        Place("/home/alice", "nfs4", "10.0.0.5:/home"),
        Place("/lustre", "lustre", "10.1.0.2@o2ib:/fs"),
    )


def test_a_home_on_a_local_disk_is_tried_too() -> None:
    assert places({"n1": seen()}, KNOWN) == (Place("/home/alice", "ext4", "/dev/sda1"),)


def test_root_has_no_home_to_share() -> None:
    assert paths(seen(LUSTRE, home="/root")) == ["/lustre"]
    assert paths(seen(home="/root")) == []


def test_what_cannot_be_written_or_belongs_to_pods_is_left_out() -> None:
    software = Mount(target="/sw", source="10.0.0.5:/sw", fstype="nfs", options=("ro",))
    volume = Mount(target="/var/lib/kubelet/pods/1/v", source="10.0.0.5:/v", fstype="nfs")
    assert paths(seen(NFS, software, volume)) == ["/home/alice"]


def test_at_most_four_those_of_most_nodes_first() -> None:
    many = [Mount(target=f"/fs{n}", source=f"s:{n}", fstype="nfs4") for n in range(9)]
    assert paths(seen(NFS, *many), seen(NFS, many[7])) == ["/home/alice", "/fs7", "/fs0", "/fs1"]
    assert len(paths(seen(NFS, *many))) == AT_MOST


def choice(nodes: dict[str, Seen], *groups: Group) -> tuple[str, ...]:
    found = pair(groups, nodes, places(nodes, KNOWN))
    return found.nodes if found else ()


def test_the_first_and_the_last_where_all_are_alike() -> None:
    nodes = dict.fromkeys(("n1", "n2", "n3"), seen(NFS))
    assert choice(nodes, Group(("n1", "n2", "n3"))) == ("n1", "n3")


def test_an_odd_node_is_one_of_the_two() -> None:
    nodes = dict.fromkeys(("n1", "n2", "n3", "n4"), seen(NFS))
    nodes["n2"] = seen(Mount(target="/home", source="scratch", fstype="tmpfs"))
    assert choice(nodes, Group(("n1", "n2", "n3", "n4"))) == ("n1", "n2")
    assert choice(nodes, Group(("n1", "n3")), Group(("n4", "n2"), gres="gpu:4")) == ("n4", "n2")
    assert choice(nodes, Group(("n1", "n3"), "batch", "gpu:8"), Group(("n2",))) == ("n1", "n3")


def test_one_job_takes_both_or_none() -> None:
    nodes = dict.fromkeys(("n1", "n2"), seen(NFS))
    assert choice(nodes, Group(("n1",)), Group(("n2",))) == ()
    assert choice(nodes, Group(("n1", "unread"))) == ()
    assert choice({}) == ()
    found = pair([Group(("n1", "n2"), "batch", "gpu:8", wait=True)], nodes, places(nodes, KNOWN))
    assert found == Group(("n1", "n2"), "batch", "gpu:8", wait=True)
