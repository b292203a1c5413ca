"""Machines as data: accelerators, network cards, processors and how many of each a shape has."""

from __future__ import annotations

from msgspec import Struct


class Gpu(Struct, frozen=True, kw_only=True):
    """One accelerator. `lanes` = PCIe width, `gts` = PCIe speed; `links` x `link_gbs` = NVLink per direction."""

    name: str
    vendor: str = "10de"
    brand: str = "NVIDIA"
    architecture: str = ""
    device: str
    subsystem: str
    memory_mib: int
    reserved_mib: int = 600
    bar1_mib: int = 131072
    power_w: float
    min_power_w: float = 200.0
    idle_w: float
    idle_c: int
    margin_c: int | None = None
    slowdown_c: int | None = None
    sm_mhz: int
    idle_mhz: int
    memory_mhz: int
    video_mhz: int = 1545
    lanes: int = 16
    generation: int = 5
    vbios: str
    board_part: str = "N/A"
    part: str = "N/A"
    inforom: str = "N/A"
    banks: int = 2560
    links: int = 0
    link_gbs: float = 0.0
    coherent: bool = False
    units: int = 0
    gfx: str = ""


class Nic(Struct, frozen=True, kw_only=True):
    """One network card. `link_layer` and `rate` are sysfs's words; `mtu` is that of its interface."""

    driver: str = "mlx5_core"
    vendor: str = "15b3"
    device: str
    subsystem: str
    hca_type: str
    board_id: str
    firmware: str
    link_layer: str
    rate: str
    mbits: int
    mtu: int
    lanes: int = 16
    gts: str = "32.0 GT/s PCIe"
    description: str


class Cpu(Struct, frozen=True, kw_only=True):
    """Processors of a machine: `cores` per socket, `threads` per core, `nodes` of NUMA per socket."""

    arch: str = "x86_64"
    vendor: str
    model: str
    family: int = 6
    number: int
    stepping: int
    sockets: int = 2
    cores: int
    threads: int = 2
    nodes: int = 1
    flags: str
    max_khz: int
    driver: str
    idle: str
    preference: str = "performance"
    rapl_uw: int | None = None
    virtualisation: str = ""
    vulnerabilities: dict[str, str] = {}


class Shape(Struct, frozen=True, kw_only=True):
    """A machine. `rails` = back-end cards, `fronts` = front-end cards; `switches` = NVSwitches on the host's bus."""

    name: str
    vendor: str
    product: str
    cpu: Cpu
    memory_gib: int
    gpu: Gpu | None = None
    gpus: int = 0
    rail: Nic | None = None
    rails: int = 0
    front: Nic
    fronts: int = 2
    switches: int = 0
    drives: int = 8
    drive: str = "SAMSUNG MZWLO3T8HCLS-00A07"
    guest: bool = False
    domain: bool = False


# ---- accelerators ---------------------------------------------------------------------------------------------

H100 = Gpu(
    name="NVIDIA H100 80GB HBM3", architecture="Hopper", device="2330", subsystem="16C1", memory_mib=81559,
    reserved_mib=553, power_w=700.0, idle_w=71.4, idle_c=30, margin_c=57, sm_mhz=1980, idle_mhz=345, memory_mhz=2619,
    vbios="96.00.BC.00.01", board_part="692-2G520-0200-000", part="2330-885-A1", inforom="G520.0200.00.05",
    links=18, link_gbs=26.562,
)  # fmt: skip
B300 = Gpu(
    name="NVIDIA B300 SXM6 AC", architecture="Blackwell", device="3182", subsystem="20E6", memory_mib=275040,
    reserved_mib=810, power_w=1100.0, idle_w=171.0, idle_c=33, margin_c=54, sm_mhz=2032, idle_mhz=120,
    memory_mhz=3996, generation=6, vbios="97.10.4A.00.10", board_part="692-2G527-0200-000", part="3182-890-A1",
    inforom="G527.0200.00.02", links=18, link_gbs=53.125,
)  # fmt: skip
GB300 = Gpu(
    name="NVIDIA GB300", architecture="Blackwell", device="31C2", subsystem="21F1", memory_mib=284208,
    reserved_mib=830, bar1_mib=524288, power_w=1400.0, idle_w=178.0, idle_c=31, margin_c=55, sm_mhz=2070,
    idle_mhz=120, memory_mhz=3996, generation=6, vbios="97.10.52.00.02", board_part="692-2G548-0200-000",
    part="31C2-893-A1", inforom="G548.0200.00.03", links=18, link_gbs=53.125, coherent=True,
)  # fmt: skip
L40S = Gpu(
    name="NVIDIA L40S", architecture="Ada Lovelace", device="26B9", subsystem="1851", memory_mib=46068,
    reserved_mib=600, bar1_mib=65536, power_w=350.0, min_power_w=100.0, idle_w=33.8, idle_c=32, slowdown_c=93,
    sm_mhz=2520, idle_mhz=210, memory_mhz=9001, video_mhz=1965, generation=4, vbios="95.02.66.00.02",
    board_part="900-2G133-0080-000", part="26B9-896-A1", inforom="G133.0242.00.03", banks=192,
)  # fmt: skip
MI355X = Gpu(
    name="AMD Instinct MI355X", vendor="1002", brand="AMD", device="75a3", subsystem="75a3", memory_mib=294896,
    power_w=1400.0, idle_w=238.0, idle_c=44, slowdown_c=105, sm_mhz=2400, idle_mhz=142, memory_mhz=900,
    vbios="113-M3550100-115", units=256, gfx="gfx950",
)  # fmt: skip

# ---- network cards --------------------------------------------------------------------------------------------

NDR = Nic(
    device="1021", subsystem="0041", hca_type="MT4129", board_id="MT_0000000838", firmware="28.46.3048",
    link_layer="InfiniBand", rate="400 Gb/sec (4X NDR)", mbits=400000, mtu=4092,
    description="Mellanox Technologies MT2910 Family [ConnectX-7]",
)  # fmt: skip
XDR = Nic(
    device="1023", subsystem="0051", hca_type="MT4131", board_id="MT_0000001300", firmware="40.46.3048",
    link_layer="InfiniBand", rate="800 Gb/sec (4X XDR)", mbits=800000, mtu=4092, gts="64.0 GT/s PCIe",
    description="Mellanox Technologies CX8 Family [ConnectX-8]",
)  # fmt: skip
ROCE = Nic(
    device="1021", subsystem="0042", hca_type="MT4129", board_id="MT_0000000891", firmware="28.46.3048",
    link_layer="Ethernet", rate="400 Gb/sec (4X NDR)", mbits=400000, mtu=9000,
    description="Mellanox Technologies MT2910 Family [ConnectX-7]",
)  # fmt: skip
FRONT = Nic(
    device="101f", subsystem="0023", hca_type="MT4127", board_id="MT_0000000531", firmware="26.46.3048",
    link_layer="Ethernet", rate="25 Gb/sec (1X EDR)", mbits=25000, mtu=1500, lanes=8, gts="16.0 GT/s PCIe",
    description="Mellanox Technologies MT2894 Family [ConnectX-6 Lx]",
)  # fmt: skip
VIRTIO = Nic(
    driver="virtio_net", vendor="1af4", device="1041", subsystem="1100", hca_type="", board_id="", firmware="",
    link_layer="", rate="", mbits=-1, mtu=1500, lanes=1, gts="2.5 GT/s PCIe",
    description="Red Hat, Inc. Virtio network device",
)  # fmt: skip

# ---- processors -----------------------------------------------------------------------------------------------

_INTEL = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush dts acpi mmx fxsr sse sse2 ss "
    "ht tm pbe syscall nx pdpe1gb rdtscp lm constant_tsc arch_perfmon pebs bts rep_good nopl xtopology nonstop_tsc "
    "cpuid aperfmperf pni pclmulqdq dtes64 vmx smx est tm2 ssse3 sdbg fma cx16 xtpr pdcm pcid dca sse4_1 sse4_2 "
    "x2apic movbe popcnt aes xsave avx f16c rdrand avx2 bmi2 erms invpcid avx512f avx512dq rdseed adx avx512bw "
    "avx512vl avx512_bf16 avx512_fp16 amx_bf16 amx_tile amx_int8 serialize"
)
_AMD = (
    "fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat pse36 clflush mmx fxsr sse sse2 ht syscall "
    "nx mmxext fxsr_opt pdpe1gb rdtscp lm constant_tsc rep_good amd_lbr_v2 nopl xtopology nonstop_tsc cpuid "
    "extd_apicid aperfmperf rapl pni pclmulqdq monitor ssse3 fma cx16 pcid sse4_1 sse4_2 movbe popcnt aes xsave avx "
    "f16c rdrand lahf_lm cmp_legacy svm extapic cr8_legacy abm sse4a avx2 smep bmi2 erms invpcid avx512f avx512dq "
    "rdseed adx avx512bw avx512vl avx512_bf16"
)
_ARM = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 sm3 "
    "sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb dcpodp sve2 sveaes svepmull svebitperm svesha3 "
    "svesm4 flagm2 frint svei8mm svebf16 i8mm bf16 dgh bti"
)
_CLEAN = dict.fromkeys(
    (
        "gather_data_sampling", "itlb_multihit", "l1tf", "mds", "meltdown", "mmio_stale_data", "reg_file_data_sampling",
        "retbleed", "srbds", "tsx_async_abort", "indirect_target_selection", "tsa", "old_microcode",
        "spec_rstack_overflow",
    ),
    "Not affected",
)  # fmt: skip
_STORE = "Mitigation: Speculative Store Bypass disabled via prctl"
_SWAPGS = "Mitigation: usercopy/swapgs barriers and __user pointer sanitization"

SAPPHIRE = Cpu(
    vendor="GenuineIntel", model="Intel(R) Xeon(R) Platinum 8480+", number=143, stepping=8, cores=56, flags=_INTEL,
    max_khz=3800000, driver="intel_pstate", idle="intel_idle", rapl_uw=350000000, virtualisation="kvm_intel",
    vulnerabilities=_CLEAN | {
        "spec_store_bypass": _STORE, "spectre_v1": _SWAPGS, "vmscape": "Mitigation: IBPB before exit to userspace",
        "spectre_v2": "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; PBRSB-eIBRS: SW sequence; BHI: "
        "BHI_DIS_S",
    },
)  # fmt: skip
GRANITE = Cpu(
    vendor="GenuineIntel", model="Intel(R) Xeon(R) 6776P", number=173, stepping=1, cores=64, flags=_INTEL,
    max_khz=4600000, driver="intel_pstate", idle="intel_idle", rapl_uw=350000000, virtualisation="kvm_intel",
    vulnerabilities=SAPPHIRE.vulnerabilities,
)  # fmt: skip
TURIN = Cpu(
    vendor="AuthenticAMD", model="AMD EPYC 9575F 64-Core Processor", family=26, number=2, stepping=1, cores=64,
    flags=_AMD,
    max_khz=5000000, driver="amd-pstate-epp", idle="acpi_idle", virtualisation="kvm_amd",
    vulnerabilities=_CLEAN | {
        "spec_store_bypass": _STORE, "spectre_v1": _SWAPGS, "vmscape": "Mitigation: IBPB before exit to userspace",
        "spectre_v2": "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; STIBP: always-on; PBRSB-eIBRS: Not "
        "affected; BHI: Not affected",
    },
)  # fmt: skip
GRACE = Cpu(
    arch="aarch64", vendor="0x41", model="Neoverse-V2", family=8, number=0xD4F, stepping=0, cores=72, threads=1,
    flags=_ARM, max_khz=3393000, driver="cppc_cpufreq", idle="acpi_idle", preference="",
    vulnerabilities=_CLEAN | {
        "spec_store_bypass": _STORE, "spectre_v1": "Mitigation: __user pointer sanitization",
        "spectre_v2": "Not affected",
        "vmscape": "Not affected",
    },
)  # fmt: skip
MILAN = Cpu(
    vendor="AuthenticAMD", model="AMD EPYC 9334 32-Core Processor", family=25, number=17, stepping=1, sockets=1,
    cores=32,
    flags=_AMD, max_khz=3910000, driver="amd-pstate-epp", idle="acpi_idle", virtualisation="kvm_amd",
    vulnerabilities=TURIN.vulnerabilities | {"spec_rstack_overflow": "Mitigation: Safe RET"},
)  # fmt: skip
GUEST = Cpu(
    vendor="AuthenticAMD", model="AMD EPYC-Genoa Processor", family=25, number=17, stepping=0, sockets=1, cores=32,
    threads=2,
    flags=_AMD.replace("svm ", "") + " hypervisor", max_khz=0, driver="", idle="haltpoll",
    vulnerabilities=_CLEAN | {
        "spec_store_bypass": _STORE, "spectre_v1": _SWAPGS, "spec_rstack_overflow": "Mitigation: Safe RET",
        "vmscape": "Not affected",
        "spectre_v2": "Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; STIBP: always-on; PBRSB-eIBRS: Not "
        "affected; BHI: Not affected",
    },
)  # fmt: skip

# ---- machines -------------------------------------------------------------------------------------------------

SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape(
            name="hgx-h100", vendor="Supermicro", product="SYS-821GE-TNHR", cpu=SAPPHIRE, memory_gib=2048, gpu=H100,
            gpus=8, rail=NDR, rails=8, front=FRONT, switches=4,
        ),
        Shape(
            name="hgx-b300", vendor="Supermicro", product="SYS-822GS-NB3RT", cpu=GRANITE, memory_gib=2048, gpu=B300,
            gpus=8, rail=XDR, rails=8, front=FRONT,
        ),
        Shape(
            name="gb300-tray", vendor="NVIDIA", product="GB300 NVL72", cpu=GRACE, memory_gib=960, gpu=GB300, gpus=4,
            rail=XDR, rails=4, front=FRONT, drives=4, domain=True,
        ),
        Shape(
            name="mi355x", vendor="Dell Inc.", product="PowerEdge XE9785", cpu=TURIN, memory_gib=2304, gpu=MI355X,
            gpus=8, rail=ROCE, rails=8, front=FRONT,
        ),
        Shape(
            name="cpu-login", vendor="Dell Inc.", product="PowerEdge R6615", cpu=MILAN, memory_gib=384, front=FRONT,
            drives=2,
        ),
        Shape(
            name="vm-l40s", vendor="QEMU", product="Standard PC (Q35 + ICH9, 2009)", cpu=GUEST, memory_gib=480,
            gpu=L40S,
            gpus=4, front=VIRTIO, fronts=1, drives=0, guest=True,
        ),
    )
}  # fmt: skip
