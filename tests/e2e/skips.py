"""Tests that cannot be run where they are: which of them may be skipped is SLUICE_MAY_SKIP's to say."""
import os
import pathlib

import pytest


def skip(reason, text):
    """Skips if SLUICE_MAY_SKIP has the reason, or is not set; else the test has failed."""
    allowed = os.environ.get("SLUICE_MAY_SKIP")
    if allowed is not None and reason not in allowed.split(","):
        pytest.fail(f"{text}\nSLUICE_MAY_SKIP={allowed} does not let it be skipped", pytrace=False)
    pytest.skip(f"{reason}: {text}")


def has_network():
    """Whether there is a way to other machines: a default route that does not lead back to this one."""
    for name, interface, is_default in (("route", 0, lambda of: of[1] == of[7] == "00000000"),
                                        ("ipv6_route", 9, lambda of: of[0] == "0" * 32 and of[1] == "00")):
        table = pathlib.Path("/proc/net") / name
        lines = table.read_text().splitlines() if table.exists() else []
        if any(is_default(fields) and fields[interface] != "lo" for fields in map(str.split, lines)):
            return True
    return False


def skip_unfetched(what, said):
    """Of what could not be fetched, with what the program that tried has said. With a network, that is a failure like another."""
    lines = said.strip().splitlines()
    skip("fetch" if has_network() else "network", f"{what}: {lines[-1] if lines else 'nothing was said'}")
