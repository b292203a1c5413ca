"""What the kernel knows of its clock: adjtimex(2) with no mode set, which only reads."""

import ctypes
import os

UNSYNCHRONISED = 0x0040  # STA_UNSYNC of <linux/timex.h>


class Timex(ctypes.Structure):
    """struct timex; `rest` is room for what is not looked at."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_long * 32),
    ]


def kernel_clock() -> "dict[str, str]":
    """Whether something disciplines the clock, and the bounds of its error; OSError where this is not allowed."""
    timex = Timex()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(ctypes.byref(timex)) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return {
        "synchronised": "no" if timex.status & UNSYNCHRONISED else "yes",
        "maxerror_us": str(timex.maxerror),
        "esterror_us": str(timex.esterror),
    }
