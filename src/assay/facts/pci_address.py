"""PCI addresses: found in paths of sysfs, and written as sysfs or nvidia-smi write them."""

from __future__ import annotations

import re

ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
DEAD_WIDTH = 63
"""Link width of a device whose configuration space reads as all ones: it no longer answers."""


def last_address(path: str) -> str:
    """The address of the device a link of sysfs leads to, behind those of the bridges above it; "" for none."""
    found = ADDRESS.findall(path)
    return found[-1] if found else ""


def sysfs_name(bus_id: str) -> str:
    """A PCI address as sysfs writes it: lower case, domain of at least four digits."""
    domain, _, rest = bus_id.strip().lower().partition(":")
    return f"{domain.lstrip('0').rjust(4, '0')}:{rest}" if rest else ""


def smi_name(bus_id: str) -> str:
    """A PCI address with the eight-digit domain of nvidia-smi, in lower case."""
    domain, _, rest = bus_id.strip().lower().partition(":")
    return f"{domain.rjust(8, '0')}:{rest}" if rest else ""
