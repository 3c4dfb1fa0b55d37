"""Skips of tests that cannot run on this machine. SLUICE_MAY_SKIP lists the reasons that are allowed."""
import os
import pathlib

import pytest


def skip(reason, text):
    """Skips the test if SLUICE_MAY_SKIP lists the reason or is not set; otherwise fails it."""
    allowed = os.environ.get("SLUICE_MAY_SKIP")
    if allowed is not None and reason not in allowed.split(","):
        pytest.fail(f"{text}\nSLUICE_MAY_SKIP={allowed} does not let it be skipped", pytrace=False)
    pytest.skip(f"{reason}: {text}")


def has_network():
    """Whether other machines can be reached: there is a default route that does not lead back to this one."""
    for name, interface, is_default in (("route", 0, lambda of: of[1] == of[7] == "00000000"),
                                        ("ipv6_route", 9, lambda of: of[0] == "0" * 32 and of[1] == "00")):
        table = pathlib.Path("/proc/net") / name
        lines = table.read_text().splitlines() if table.exists() else []
        if any(is_default(fields) and fields[interface] != "lo" for fields in map(str.split, lines)):
            return True
    return False


def skip_unfetched(what, said):
    """Skips because `what` could not be fetched; `said` is the output of the program that tried."""
    lines = said.strip().splitlines()
    skip("fetch" if has_network() else "network", f"{what}: {lines[-1] if lines else 'nothing was said'}")
