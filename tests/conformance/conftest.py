"""The running program and the strict clients of the end-to-end tests, for lists of cases that share one server."""
import importlib.util
import pathlib
import sys

import pytest

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path.insert(0, str(E2E))
spec = importlib.util.spec_from_file_location("e2e_fixtures", E2E / "conftest.py")
fixtures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fixtures)


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """serve(config, server="") starts the program for a whole module; at its end it must stop by SIGTERM with 0."""
    running = []

    def start(config, server=""):
        folder = tmp_path_factory.mktemp("conformance")
        port, admin_port = fixtures.free_port(), fixtures.free_port()
        file = folder / "sluice.toml"
        file.write_text(f'[server]\nlisten = ["127.0.0.1:{port}"]\n{server}\n'
                        f'[admin]\nlisten = "127.0.0.1:{admin_port}"\n{config}\n')
        running.append(fixtures.Server(file, folder, {}, port, admin_port))
        return running[-1].wait()

    yield start
    try:
        for each in running:
            each.stop()
    finally:
        for each in running:
            each.kill()
