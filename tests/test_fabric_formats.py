"""Fabric tools as people paste them: with a prompt, indented, cut, or failing half way."""

import pytest

from assay.facts import ib_tools, infiniband, lspci, mlx_tools, net_tools

CA = """\
    CA 'mlx5_{n}'
        CA type: MT4129
        Number of ports: 1
        Firmware version: 28.42.1000
        Port 1:
            State: Active
            Physical state: LinkUp
            Rate: 400
            Base lid: {n}
            SM lid: 1
            Link layer: InfiniBand
"""


def test_an_indented_ibstat_that_stops_half_way() -> None:
    stop = "ibpanic: [4711] main: stat of IB device 'mlx5_2' failed: Invalid argument\n"
    seen = ib_tools.ibstat(CA.format(n=3) + CA.format(n=4) + stop)
    assert [(d.name, d.ports[0].lid) for d in seen.devices] == [("mlx5_3", 3), ("mlx5_4", 4)]
    assert seen.error == "main: stat of IB device 'mlx5_2' failed: Invalid argument"
    assert ib_tools.ibstat(stop).devices == ()


def test_ibstat_of_one_port() -> None:
    seen = ib_tools.ibstat("CA: 'mlx5_6'\nPort 1:\nState: Initializing\nPhysical state: LinkUp\nRate: 40 (FDR10)\n")
    port = seen.devices[0].ports[0]
    assert (seen.devices[0].name, port.state, port.rate_gbps) == ("mlx5_6", "Initializing", 40)


def test_no_device_is_an_answer_of_ibv_devinfo() -> None:
    assert ib_tools.ibv_devinfo("No IB devices found\n") == ()
    with pytest.raises(ValueError, match="ibv_devinfo"):
        ib_tools.ibv_devinfo("command not found")


def test_ibdev2netdev_short_and_verbose() -> None:
    bond = "mlx5_bond_0 port 1 ==> bond0 (Up)  # front end (old)\n"
    short = "mlx5_0   port  1  ==>  ibp26s0  (Down)\n" + bond + "mlx5_9 port 1 ==> (Down)\n"
    seen = ib_tools.ibdev2netdev(short)
    assert [(r.device, r.netdev, r.up) for r in seen] == [
        ("mlx5_0", "ibp26s0", False), ("mlx5_bond_0", "bond0", True), ("mlx5_9", "", False),
    ]  # fmt: skip
    card = "(MT4129 - MCX75310AAS-NEAT) ConnectX-7 HHHL adapter card, NDR"
    one = ib_tools.ibdev2netdev(f"0000:1a:00.0 mlx5_0 {card} fw 28.42.1000 port 1 (ACTIVE) ==> ib0 (Up)\n")[0]
    assert (one.pci, one.device, one.type, one.fw_ver) == ("0000:1a:00.0", "mlx5_0", "MT4129", "28.42.1000")
    assert (one.port, one.state, one.netdev, one.up) == (1, "ACTIVE", "ib0", True)


def test_ibv_devices() -> None:
    head = "    device                 node GUID\n    ------              ----------------\n"
    assert ib_tools.ibv_devices(head) == ()
    seen = ib_tools.ibv_devices(
        head + "    bnxt_re0            b81f66fffe00aa01\n    mlx5_2              9c63c0030021ff02\n"
    )
    assert [(d.name, d.node_guid) for d in seen] == [("bnxt_re0", "b81f66fffe00aa01"), ("mlx5_2", "9c63c0030021ff02")]


def test_ibnetdiscover_names_with_and_without_quotes() -> None:
    text = (
        "SW   12  3 0x0002c902004a1f30 4x QDR                                Edge switch of rack 9\n"
        "SW   12  4 0x0002c902004a1f30 4x ???\n"
        "CA   40  1 0x0002c903004a1f31 4x QDR - SW   12  5 0x0002c902004a1f30 ( 'n9 HCA-1' - 'Edge switch' )\n"
    )
    seen = ib_tools.ibnetdiscover_ports(text)
    assert [(p.port, p.name, p.peer_lid) for p in seen] == [
        (3, "Edge switch of rack 9", None), (4, "", None), (1, "n9 HCA-1", 12),
    ]  # fmt: skip


def test_mst_status_without_v() -> None:
    text = (
        "MST modules:\n------------\n    MST PCI module is not loaded\n    MST PCI configuration module loaded\n\n"
        "MST devices:\n------------\n"
        "/dev/mst/mt4129_pciconf0         - PCI configuration cycles access.\n"
        "                                   domain:bus:dev.fn=0000:9a:00.0 addr.reg=88 data.reg=92\n"
        "                                   Chip revision is: 00\n"
    )
    assert [(d.mst, d.pci) for d in mlx_tools.mst_status(text)] == [("/dev/mst/mt4129_pciconf0", "0000:9a:00.0")]


def test_mlxlink_json_with_lanes_and_masks() -> None:
    sections = (
        '"Operational Info": {"State": "Active", "Speed": "IB-NDR"}, '
        '"Supported Info": {"Enabled Link Speed": {"mask": "0x80", "values": ["NDR", "HDR"]}}, '
        '"Physical Counters and BER Info": {"Raw Physical Errors Per Lane": {"values": [0, 7, 0, 1]}, '
        '"Link Down Counter": 2}'
    )
    seen = mlx_tools.mlxlink('{"result": {"output": {' + sections + "}}}")
    assert seen["Enabled Link Speed"] == "NDR,HDR"
    assert (seen["Raw Physical Errors Per Lane"], seen["Link Down Counter"]) == ("0,7,0,1", "2")
    with pytest.raises(ValueError, match="no values"):
        mlx_tools.mlxlink('{"status": {"code": 1}, "result": {"output": null}}')


def test_firmware_on_offer() -> None:
    table = "  Versions:   Current        Available\n     FW       28.40.1000  28.43.2026\n"
    one = mlx_tools.mlxfwmanager("Device #1:\n----------\n  PSID:  MT_0000000838\n" + table)[0]
    assert (one.burned, one.available) == ("28.40.1000", "28.43.2026")


def test_rdma_link_of_old_iproute() -> None:
    seen = net_tools.rdma_link(
        "1/1: mlx5_0/1: subnet_prefix fe80:0000 lid 7 sm_lid 1 state ACTIVE physical_state LINK_UP\n"
    )
    assert [(r.name, r.port, r.state) for r in seen] == [("mlx5_0", 1, "ACTIVE")]


def test_rdma_statistic_as_text() -> None:
    seen = net_tools.rdma_statistic(
        "link bnxt_re0/1 rx_pkts 512 tx_pkts 0 seq_err 3\nlink mlx5_1/1 out_of_sequence 9\n"
    )
    assert seen == {"bnxt_re0/1": {"rx_pkts": 512, "tx_pkts": 0, "seq_err": 3}, "mlx5_1/1": {"out_of_sequence": 9}}


def test_brief_ip() -> None:
    text = (
        "lo               UNKNOWN        00:00:00:00:00:00 <LOOPBACK,UP,LOWER_UP> \n"
        "rail0            DOWN           02:11:22:33:44:55 <NO-CARRIER,BROADCAST,MULTICAST,UP> \n"
        "eth0@if12        UP             10.0.3.4/24 fe80::11/64 \n"
        "bond0            UP             \n"
    )
    seen = net_tools.ip(text)
    assert [(i.name, i.state) for i in seen] == [
        ("lo", "UNKNOWN"), ("rail0", "DOWN"), ("eth0", "UP"), ("bond0", "UP"),
    ]  # fmt: skip
    assert seen[1].flags[0] == "NO-CARRIER"
    assert seen[2].addresses == ("10.0.3.4/24", "fe80::11/64")


def test_lspci_in_a_pasted_block_without_numbers() -> None:
    text = (
        "    05:00.0 Bridge: NVIDIA Corporation Device 22a3 (rev a1)\n"
        "    19:00.0 3D controller: NVIDIA Corporation GH100 [H200 SXM 141GB] (rev a1)\n"
        "    \tDevCtl:\tCorrErr+ NonFatalErr+\n    \t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes\n"
    )
    switch, gpu = lspci.lspci(text)
    assert switch.nvswitch
    assert (gpu.slot, gpu.gpu, gpu.max_payload_b, gpu.max_read_request_b) == ("19:00.0", True, 256, 4096)


def test_a_link_above_its_capability_is_not_downgraded() -> None:
    text = (
        "3b:00.0 VGA compatible controller: nVidia Corporation Device 1234 (rev a1)\n"
        "\t\tLnkSta:\tSpeed 8GT/s (overdriven), Width x8 (downgraded)\n"
    )
    one = lspci.lspci(text)[0]
    assert one.gpu
    assert one.link == lspci.Link(gts=8, speed_ok=True, width=8, width_ok=False)


def test_a_counter_that_cannot_be_read_is_counted() -> None:
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    text = (
        f"{port}/state:4: ACTIVE\n{port}/counters/link_downed:3\n{port}/counters/symbol_error:N/A (no PMA)\n"
        f"grep: {port}/counters/port_rcv_errors: Invalid argument\n"
    )
    seen = infiniband.sysfs_listing(text).devices[0].ports[0]
    assert (seen.state, seen.counters, seen.unreadable_counters) == ("ACTIVE", {"link_downed": 3}, 2)


def test_ibnetdiscover_lists_nodes() -> None:
    text = (
        "vendid=0x2c9\ndevid=0xd2f2\nswitchguid=0x900a84030060aa10(900a84030060aa10)\n"
        'Switch\t65 "S-900a84030060aa10"\t\t# "Quantum-2 leaf-4" enhanced port 0 lid 21 lmc 0\n'
        '[1]\t"H-9c63c0030021ff02"[1](9c63c0030021ff02) \t\t# "n1 mlx5_0" lid 7 4xNDR\n'
        '[65]\t"H-900a84030060aa18"[1](900a84030060aa18) \t\t# "Aggregation Node" lid 22 4xHDR\n\n'
        'Ca\t1 "H-9c63c0030021ff02"\t\t# "n1 mlx5_0"\n'
        '[1](9c63c0030021ff02) \t"S-900a84030060aa10"[1]\t\t# lid 7 lmc 0 "Quantum-2 leaf-4" lid 21 4xNDR\n'
    )
    seen = ib_tools.ibnetdiscover(text)
    assert [(n.type, n.guid, n.name, n.ports, n.cabled, n.lid) for n in seen] == [
        ("SW", "0x900a84030060aa10", "Quantum-2 leaf-4", 65, 2, 21),
        ("CA", "0x9c63c0030021ff02", "n1 mlx5_0", 1, 1, None),
    ]  # fmt: skip
