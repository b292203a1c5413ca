"""Host tools as people paste them: other forms of the same command, and answers that are no table."""

import json

import pytest

from assay.facts import cpu_tools, docker, ipmi, modules, mounts, nvme, packages, smart, systemd


def test_numactl_abridged_by_its_author() -> None:
    sizes = "node 0 size: 490000 MB\nnode 1 cpus:\nnode 1 size: 95000 MB\n"
    text = "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 ... 71\n" + sizes
    seen = cpu_tools.numactl(text)
    assert (seen.nodes[0].cpus, seen.cpu_nodes) == (None, (0,))
    assert [n.id for n in seen.memory_only] == [1]


def test_smart_log_as_text() -> None:
    text = (
        "Smart Log for NVME device:nvme3 namespace-id:ffffffff\n"
        "critical_warning\t\t\t: 0x5\ntemperature\t\t\t\t: 41\u00b0C (314 Kelvin)\navailable_spare\t\t\t\t: 3%\n"
        "available_spare_threshold\t\t: 10%\npercentage_used\t\t\t\t: 97%\nmedia_errors\t\t\t\t: 12\n"
        "power_on_hours\t\t\t\t: 21,034\nData Units Written\t\t\t: 5,073,051 (2.59 TB)\n"
    )
    log = smart.smart_log(text)
    assert (log.critical_warning, log.temperature_c, log.percent_used, log.worn) == (5, 41, 97, True)
    assert (log.power_on_hours, log.data_units_written, log.media_errors) == (21034, 5073051, 12)


def test_smartctl_of_a_drive_that_is_not_there() -> None:
    said = {"string": "/dev/sdz: Unable to detect device type", "severity": "error"}
    log = smart.smartctl(json.dumps({"smartctl": {"exit_status": 1, "messages": [said]}}))
    assert (log.passed, log.exit_status, log.error) == (None, 1, "/dev/sdz: Unable to detect device type")


def test_smartctl_of_a_sas_drive() -> None:
    counters = {kind: {"total_uncorrected_errors": n} for kind, n in (("read", 4), ("write", 0))}
    document = {
        "smartctl": {"exit_status": 0}, "scsi_model_name": "ACME S1", "scsi_grown_defect_list": 7,
        "scsi_error_counter_log": counters, "scsi_percentage_used_endurance_indicator": 3,
        "user_capacity": {"bytes": 2400476553216},
    }  # fmt: skip
    log = smart.smartctl(json.dumps(document))
    assert (log.model, log.grown_defects, log.uncorrected_errors, log.percent_used) == ("ACME S1", 7, 4, 3)
    assert log.size_gb == 2400.476553216


def test_smartctl_as_text() -> None:
    head = "smartctl 7.4 2023-08-01 r5530 [x86_64-linux-6.8.0] (local build)\n\n=== START OF INFORMATION SECTION ===\n"
    ata = (
        "Device Model:     ACME X200\nFirmware Version: R2\n"
        "SMART overall-health self-assessment test result: FAILED!\n"
        "  5 Reallocated_Sector_Ct   0x0033   009   009   010    Pre-fail  Always   FAILING_NOW 1830\n"
        "194 Temperature_Celsius     0x0022   035   042   000    Old_age   Always       -       35 (0 14 0 0 0)\n"
    )
    log = smart.smartctl(head + ata)
    assert (log.passed, log.model, log.failed_attributes) == (False, "ACME X200", ("Reallocated_Sector_Ct",))
    assert log.attributes == {"Reallocated_Sector_Ct": 1830, "Temperature_Celsius": 35}
    drive = (
        "SMART overall-health self-assessment test result: PASSED\nCritical Warning:                   0x00\n"
        "Temperature:                        38 Celsius\nPower On Hours:                     1,290\n"
        "Media and Data Integrity Errors:    2\nError Information Log Entries:      979\n"
    )
    log = smart.smartctl(head + drive)
    assert (log.passed, log.temperature_c, log.power_on_hours) == (True, 38, 1290)
    assert (log.media_errors, log.num_err_log_entries) == (2, 979)


def test_nvme_list_as_a_table() -> None:
    text = (
        "Node             SN          Model              Namespace Usage                      Format        FW Rev\n"
        "---------------- ----------- ------------------ --------- -------------------------- ------------- --------\n"
        "/dev/nvme0n1     S0X1        ACME P3 1.92TB     1           0.00   B /   1.92  TB    512   B +  0 B  11B\n"
        "/dev/nvme10n2    S0X2        ACME P3 1.92TB     2         512.00  GB / 960.00  GB    512   B +  0 B  11B\n"
    )
    seen = nvme.nvme_list_any(text).drives
    assert [(d.name, d.model, d.size_gb) for d in seen] == [
        ("nvme0", "ACME P3 1.92TB", 1920.0), ("nvme10", "ACME P3 1.92TB", 960.0),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="nvme list"):
        nvme.nvme_list_any("bash: nvme: command not found")


def test_status_under_a_prompt_of_a_masked_and_of_an_unknown_unit() -> None:
    text = (
        "[root@n1 ~]# systemctl status fabric.service\n"
        "\u25cb fabric.service\n     Loaded: masked (Reason: Unit fabric.service is masked.)\n"
        "     Active: inactive (dead)\n"
    )
    seen = systemd.unit_status(text)
    assert (seen.name, seen.load, seen.enabled, seen.path) == ("fabric.service", "masked", False, None)
    seen = systemd.unit_status("Unit nvidia-dcgm.service could not be found.\n")
    assert (seen.name, seen.load, seen.active, seen.enabled) == ("nvidia-dcgm.service", "not-found", None, None)


def test_rpm_lists_its_keys_without_architecture() -> None:
    seen = packages.rpm_all("gpg-pubkey-8483c65d-5ccc5b19\nkernel-core-5.14.0-503.el9.x86_64\n")
    assert seen.installed == {"gpg-pubkey": "8483c65d-5ccc5b19", "kernel-core": "5.14.0-503.el9"}


def test_proc_mounts() -> None:
    text = (
        "10.1.0.2@o2ib:/scratch /scratch lustre rw,flock 0 0\n# note\nhome.lan:/x /my\\040home nfs4 rw,nconnect=8 0 0\n"
    )
    first, second = mounts.proc_mounts(text).mounts
    assert (first.fstype, first.lnets, first.option("flock")) == ("lustre", ("o2ib",), "")
    assert (second.target, second.option("nconnect")) == ("/my home", "8")


def test_sel_with_an_oem_record_and_ipmi_sensors() -> None:
    fan = "   1 | 10/05/2026 | 02:11:09 PM EST | Fan #0x42 | Lower Critical going low | Deasserted\n"
    rows = fan + "   2 | OEM record e0 | 0a0b0c\n"
    seen = ipmi.sel(rows)
    assert [(e.sensor, e.asserted) for e in seen] == [("Fan #0x42", False), ("OEM record e0", None)]
    table = (
        "ID  | Name       | Type         | Reading  | Units | Event\n"
        "4   | CPU Temp   | Temperature  | 41.00    | C     | 'OK'\n"
        "72  | PS1 Status | Power Supply | N/A      | N/A   | 'Presence detected' 'Power Supply input lost'\n"
    )
    first, second = ipmi.sdr(table).sensors
    assert (first.name, first.value, first.unit, first.also) == ("CPU Temp", 41, "C", "OK")
    assert (second.value, second.also) == (None, "Presence detected Power Supply input lost")


def test_docker_version_of_an_engine_that_is_a_component() -> None:
    engine = {"Name": "Engine", "Version": "27.1.1", "Details": {"ApiVersion": "1.46"}}
    server = {"Version": "", "Components": [engine, {"Name": "containerd", "Version": "1.7.20"}]}
    seen = docker.docker_version(json.dumps({"Client": {"Version": "27.1.1", "ApiVersion": "1.46"}, "Server": server}))
    assert (seen["server"], seen["server_api"], seen["containerd"]) == ("27.1.1", "1.46", "1.7.20")


def test_modinfo_of_a_module_that_is_not_there() -> None:
    assert modules.modinfo("modinfo: ERROR: Module nvidia_peermem not found.\n") == modules.ModInfo()
