"""Tests that cannot be run where they are: which of them may be skipped is SLUICE_MAY_SKIP's to say."""
import os
import re

import pytest

# What pip and go say where nothing can be fetched.
_NO_NETWORK = re.compile(r"name resolution|Name or service not known|no such host|Network is unreachable|No route to host|"
                         r"[Cc]onnection refused|Connection reset|NewConnectionError|ProxyError|proxyconnect|[Tt]imed out|"
                         r"i/o timeout|TLS handshake timeout|50[234] (Bad Gateway|Service|Gateway)")


def skip(reason, text):
    """Skips if SLUICE_MAY_SKIP has the reason, or is not set; else the test has failed."""
    allowed = os.environ.get("SLUICE_MAY_SKIP")
    if allowed is not None and reason not in allowed.split(","):
        pytest.fail(f"{text}\nSLUICE_MAY_SKIP={allowed} does not let it be skipped", pytrace=False)
    pytest.skip(f"{reason}: {text}")


def skip_unfetched(what, said):
    """Of what could not be fetched, with what the program that tried has said."""
    lines = said.strip().splitlines()
    skip("network" if _NO_NETWORK.search(said) else "fetch", f"{what}: {lines[-1] if lines else 'nothing was said'}")
