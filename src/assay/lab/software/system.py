"""Distribution, kernel, firmware names, kernel settings, limits and the session of the reader."""

from __future__ import annotations

from assay.lab.hardware.layout import number
from assay.lab.hardware.shapes import Shape
from assay.lab.hardware.state import State
from assay.lab.parts import Parts
from assay.lab.software.image import Image
from assay.lab.virtual import Output

_OS = (
    'PRETTY_NAME="Ubuntu 24.04.4 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nVERSION="24.04.4 LTS (Noble Numbat)"\n'
    "VERSION_CODENAME=noble\nID=ubuntu\nID_LIKE=debian\nUBUNTU_CODENAME=noble\n"
)
_SYSCTLS = {
    "vm/swappiness": 10, "vm/overcommit_memory": 0, "vm/overcommit_ratio": 50, "vm/max_map_count": 1048576,
    "vm/nr_hugepages": 0, "vm/zone_reclaim_mode": 0, "vm/min_free_kbytes": 1048576, "vm/dirty_ratio": 20,
    "vm/dirty_background_ratio": 10, "kernel/numa_balancing": 0, "kernel/perf_event_paranoid": 1,
    "kernel/kptr_restrict": 0, "kernel/yama/ptrace_scope": 1, "kernel/pid_max": 4194304, "kernel/threads-max": 16509114,
    "kernel/randomize_va_space": 2, "kernel/panic_on_oops": 0, "kernel/hung_task_timeout_secs": 120,
    "kernel/tainted": 4096, "kernel/dmesg_restrict": 1, "kernel/unprivileged_bpf_disabled": 2,
    "kernel/apparmor_restrict_unprivileged_userns": 1, "kernel/unprivileged_userns_clone": 1,
    "kernel/kexec_load_disabled": 0, "net/core/rmem_max": 268435456, "net/core/wmem_max": 268435456,
    "net/core/somaxconn": 4096, "net/core/netdev_max_backlog": 250000, "net/core/default_qdisc": "fq_codel",
    "net/ipv4/tcp_rmem": "4096\t131072\t134217728", "net/ipv4/tcp_wmem": "4096\t16384\t134217728",
    "net/ipv4/tcp_congestion_control": "cubic", "net/ipv4/tcp_mtu_probing": 1,
    "net/ipv4/ip_local_port_range": "32768\t60999", "net/ipv4/conf/all/arp_ignore": 1,
    "net/ipv4/conf/all/arp_announce": 2, "net/ipv4/conf/all/rp_filter": 2, "net/ipv4/conf/default/rp_filter": 2,
    "fs/file-max": 9223372036854775807, "fs/nr_open": 1048576, "fs/aio-max-nr": 65536, "fs/protected_symlinks": 1,
    "fs/protected_hardlinks": 1, "fs/suid_dumpable": 2, "fs/inotify/max_user_watches": 1048576,
    "fs/inotify/max_user_instances": 8192, "user/max_user_namespaces": 8254557,
}  # fmt: skip
_COMMON = (
    "nvme",
    "nvme_core",
    "xfs",
    "bonding",
    "ib_core",
    "ib_uverbs",
    "rdma_ucm",
    "overlay",
    "lustre",
    "lnet",
    "ko2iblnd",
)
_NVIDIA = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "gdrdrv")


def modules(shape: Shape, image: Image) -> list[str]:
    """Names of the loaded kernel modules."""
    names = [*_COMMON] if shape.gpus and not shape.guest else ["nvme", "nvme_core", "xfs", "bonding", "overlay"]
    if shape.gpu and shape.gpu.vendor == "10de":
        names += _NVIDIA if not shape.guest else _NVIDIA[:-1]
        if image.peer_memory and shape.rails:
            names.append("nvidia_peermem")
    if shape.gpu and shape.gpu.vendor == "1002":
        names += ["amdgpu", "amdttm", "ib_peer_mem"]
    if shape.front.driver == "mlx5_core":
        names += ["mlx5_core", "mlx5_ib"]
    if shape.cpu.virtualisation:
        names += [shape.cpu.virtualisation, "kvm"]
    return names if shape.guest or shape.domain else [*names, "ipmi_si", "ipmi_msghandler"]


def base(host: str, shape: Shape, state: State, image: Image) -> Parts:
    """Everything of the operating system that does not depend on GPUs."""
    parts = Parts()
    parts.files["/etc/os-release"] = "".join(_OS)
    parts.links["/usr/lib/os-release"] = "/etc/os-release"
    _kernel(parts, host, shape, image)
    for name, value in _SYSCTLS.items():
        parts.files[f"/proc/sys/{name}"] = f"{value}\n"
    parts.files["/proc/sys/kernel/osrelease"] = f"{image.kernel}\n"
    parts.files["/proc/sys/kernel/arch"] = f"{shape.cpu.arch}\n"
    _firmware(parts, host, shape)
    _session(parts, shape)
    parts.files["/proc/modules"] = "".join(
        f"{name} {65536 + 4096 * len(name)} {n % 3} - Live 0x0000000000000000{' (OE)' if name in _NVIDIA else ''}\n"
        for n, name in enumerate(modules(shape, image))
    )
    versions = {
        "nvidia": state.driver,
        "nvidia_uvm": state.driver,
        "amdgpu": state.amdgpu,
        "mlx5_core": "26.07-0.6.6",
        "gdrdrv": "2.5.1",
    }
    for name in modules(shape, image):
        parts.directory(f"/sys/module/{name}")
        if name in versions:
            parts.files[f"/sys/module/{name}/version"] = f"{versions[name]}\n"
    parts.environment["PATH"] = image.path
    return parts


def _kernel(parts: Parts, host: str, shape: Shape, image: Image) -> None:
    build = image.kernel_package.rpartition(".")[2]
    parts.files["/proc/version"] = (
        f"Linux version {image.kernel} (buildd@build) ({shape.cpu.arch}-linux-gnu-gcc-13 (Ubuntu "
        "13.3.0-6ubuntu2~24.04) 13.3.0,"
        f" GNU ld (GNU Binutils for Ubuntu) 2.42) #{build}-Ubuntu SMP PREEMPT_DYNAMIC Thu Oct  8 10:15:05 UTC 2026\n"
    )
    parts.files["/proc/cmdline"] = (
        f"BOOT_IMAGE=/vmlinuz-{image.kernel} root=UUID={number(host, 'root')[:8]}-0000-4000-8000-000000000000 ro "
        "iommu=pt"
        " numa_balancing=disable console=tty0 console=ttyS0,115200n8\n"
    )
    boot = number(host, "boot")
    parts.files["/proc/sys/kernel/random/boot_id"] = (
        f"{boot[:8]}-{boot[8:12]}-4{boot[13:16]}-9{boot[17:20]}-{boot[20:32]}\n"
    )
    parts.program("/usr/bin/uname", {"-m": f"{shape.cpu.arch}\n", "-r": f"{image.kernel}\n"})
    for kernel in filter(None, (image.kernel, image.newer_kernel)):
        parts.modes[f"/boot/vmlinuz-{kernel}"] = "f 0600 0 0 0:0"
        parts.directory(f"/lib/modules/{kernel}")
    if image.newer_kernel:
        parts.files["/run/reboot-required"] = "*** System restart required ***\n"
        parts.files["/run/reboot-required.pkgs"] = f"linux-image-{image.newer_kernel}\nlinux-base\n"
    parts.links["/var/run"] = "/run"
    parts.files["/sys/kernel/security/lsm"] = "lockdown,capability,landlock,yama,apparmor"
    parts.files["/sys/kernel/security/lockdown"] = "[none] integrity confidentiality\n"
    if not shape.guest:
        parts.files["/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"] = (
            "\x06\x00\x00\x00\x00"
        )


def _firmware(parts: Parts, host: str, shape: Shape) -> None:
    text = number(host, "board")
    bios = "SeaBIOS" if shape.guest else "American Megatrends International, LLC."
    parts.put(
        "/sys/class/dmi/id",
        {
            "sys_vendor": shape.vendor,
            "product_name": shape.product,
            "bios_vendor": bios,
            "chassis_asset_tag": "Default string",
        },
    )
    secret = {
        "product_serial": "Not Specified" if shape.guest else f"S{int(text[:9], 16) % 10**9:09d}",
        "board_serial": "Not Specified" if shape.guest else f"OM{int(text[9:18], 16) % 10**9:09d}",
        "product_uuid": f"{text[:8]}-{text[8:12]}-11ee-8000-{text[20:32]}",
    }
    parts.put("/sys/class/dmi/id", secret)
    parts.modes.update({f"/sys/class/dmi/id/{name}": "f 0400 0 0 0:0" for name in secret})
    parts.files["/etc/machine-id"] = f"{number(host, 'machine')[:32]}\n"
    entries = ["1-0"] if shape.guest or shape.domain else ["1-0", "38-0"]
    parts.directory(*(f"/sys/firmware/dmi/entries/{entry}" for entry in entries))


def _session(parts: Parts, shape: Shape) -> None:
    total = shape.cpu.sockets * shape.cpu.cores * shape.cpu.threads
    parts.files["/proc/self/cgroup"] = "0::/user.slice/user-0.slice/session-4.scope\n"
    parts.files["/proc/self/status"] = (
        "Name:\tpython3\nUmask:\t0022\nState:\tR (running)\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t0\n"
        f"NoNewPrivs:\t0\nSeccomp:\t0\nCpus_allowed_list:\t0-{total - 1}\n"
    )
    parts.links["/proc/self/ns/pid"] = "pid:[4026531836]"
    parts.files["/proc/1/stat"] = "1 (systemd) S 0 1 1 0 -1 4194560\n"
    rows = {
        "Max cpu time": "seconds", "Max stack size": "bytes", "Max processes": "processes", "Max open files": "files",
        "Max locked memory": "bytes",
    }  # fmt: skip
    values = {"Max open files": ("1048576", "1048576"), "Max processes": ("8254557", "8254557")}
    parts.files["/proc/self/limits"] = f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}Units\n" + "".join(
        f"{name:<26}{values.get(name, ('unlimited',) * 2)[0]:<21}{values.get(name, ('unlimited',) * 2)[1]:<21}{unit}\n"
        for name, unit in rows.items()
    )
    parts.files["/etc/security/limits.conf"] = "# /etc/security/limits.conf\n"
    parts.files["/etc/security/limits.d/90-hpc.conf"] = (
        "* - memlock unlimited\n* - nofile 1048576\n* - stack unlimited\n"
    )
    parts.files["/sys/fs/cgroup/cgroup.controllers"] = "cpuset cpu io memory hugetlb pids rdma misc\n"
    parts.put("/sys/fs/cgroup/user.slice", {"memory.max": "max", "cpu.max": "max 100000"})
    parts.node("/dev/kmsg", "0644", "1:11")


def reader(parts: Parts, uid: int, gid: int, groups: tuple[int, ...]) -> None:
    """The session of an ordinary user in place of root's."""
    text = parts.files["/proc/self/status"]
    text = text.replace(
        "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n", f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t{gid}\t{gid}\t{gid}\t{gid}\n"
    )
    parts.files["/proc/self/status"] = text.replace("Groups:\t0\n", f"Groups:\t{' '.join(map(str, groups))}\n")
    parts.files["/proc/self/cgroup"] = f"0::/user.slice/user-{uid}.slice/session-9.scope\n"
    denied = "dmesg: read kernel buffer failed: Operation not permitted\n"
    parts.program("/usr/bin/dmesg", {"--time-format=iso": Output(err=denied, rc=1)})
    hint = (
        "Hint: You are currently not seeing messages from other users and the system.\n      Users in groups 'adm',"
        " 'systemd-journal' can see all messages.\n      Pass -q to turn off this notice.\n"
    )
    parts.commands["/usr/bin/journalctl"] = lambda _argv, _host: Output("-- No entries --\n", hint)
    parts.program("/usr/sbin/sshd", {"-T": Output(err="sshd: no hostkeys available -- exiting.\n", rc=1)})
