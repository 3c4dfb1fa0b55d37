"""A private PostgreSQL cluster, and a pooler in front of one, for tests and benchmarks."""
import glob
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import threading

# Below the kernel's ephemeral ports, so that no client connection takes one. Each parallel test process has its own ports.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 4
_PORTS = list(range(12000 + 5000 * _WORKER, 17000 + 5000 * _WORKER))
random.SystemRandom().shuffle(_PORTS)


def free_port():
    """A loopback port that nothing listens on, and that this function has not returned before."""
    while True:
        port = _PORTS.pop()
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


class Postgres:
    """A new cluster on a free loopback port and a unix socket, which trusts everybody."""

    def __init__(self, *settings, language=""):
        """`language`: of the server's messages ("de"), if `settings` have lc_messages=C.UTF-8, which needs no locale of the system."""
        self.environment = {**os.environ, "LANGUAGE": language}
        self.bin = max(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
        self.folder = tempfile.mkdtemp(prefix="sluice-pg-")
        self.data = f"{self.folder}/data"
        self.port = free_port()
        self.settings = ["fsync=off", "max_connections=200", "listen_addresses=127.0.0.1", f"port={self.port}",
                         f"unix_socket_directories={self.folder}", *settings]
        self.user = []
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            os.chown(self.folder, pwd.getpwnam("postgres").pw_uid, -1)
            self.user = ["runuser", "-u", "postgres", "--"]
        os.chmod(self.folder, 0o755)
        self._run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        self.start()

    def standby(self):
        """A hot standby that follows this cluster; stop and remove it like any other cluster."""
        other = Postgres.__new__(Postgres)
        other.bin, other.user, other.environment = self.bin, self.user, self.environment
        other.folder = tempfile.mkdtemp(prefix="sluice-pg-")
        other.data = f"{other.folder}/data"
        other.port = free_port()
        other.settings = [setting.replace(f"={self.port}", f"={other.port}").replace(self.folder, other.folder)
                          for setting in self.settings]
        if self.user:
            os.chown(other.folder, pwd.getpwnam("postgres").pw_uid, -1)
        os.chmod(other.folder, 0o755)
        other._run("pg_basebackup", "-D", other.data, "-R", "-c", "fast", "-d", self.url())
        other.start()
        return other

    def _run(self, program, *arguments):
        run = subprocess.run([*self.user, f"{self.bin}/{program}", *arguments], cwd=self.folder, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if run.returncode != 0:
            raise RuntimeError(run.stdout)

    def start(self):
        options = " ".join(f"-c {setting}" for setting in self.settings)
        subprocess.run([*self.user, f"{self.bin}/pg_ctl", "-D", self.data, "-o", options, "-l", f"{self.folder}/log",
                        "-w", "start"], cwd=self.folder, env=self.environment, check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL)

    def stop(self, mode="fast"):
        subprocess.run([*self.user, f"{self.bin}/pg_ctl", "-D", self.data, "-m", mode, "-w", "stop"], cwd=self.folder,
                       check=True, stdout=subprocess.DEVNULL)

    def url(self, database="postgres"):
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"

    def psql(self, sql, database="postgres"):
        """The output of the statement as bytes: unaligned, without headers."""
        run = subprocess.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", self.url(database)],
                             input=sql if isinstance(sql, bytes) else sql.encode(), capture_output=True)
        if run.returncode != 0:
            raise RuntimeError(run.stderr.decode())
        return run.stdout

    def remove(self):
        subprocess.run([*self.user, f"{self.bin}/pg_ctl", "-D", self.data, "-m", "immediate", "stop"], cwd=self.folder,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


class PgBouncer:
    """A PgBouncer in front of a cluster, with transactions pooled over `size` server connections; stops with the `with` block."""

    def __init__(self, cluster, size, mode="transaction"):
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="sluice-pgbouncer-")
        with open(f"{self.folder}/users", "w") as users:
            users.write('"postgres" ""\n')
        with open(f"{self.folder}/pgbouncer.ini", "w") as file:
            file.write(f"""[databases]
postgres = host=127.0.0.1 port={cluster.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = trust
auth_file = {self.folder}/users
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
""")
        os.chmod(self.folder, 0o755)
        self.process = subprocess.Popen([*cluster.user, "pgbouncer", f"{self.folder}/pgbouncer.ini"], text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for line in self.process.stderr:
            if "process up" in line:
                break
        else:
            raise RuntimeError("PgBouncer has not started")
        self.log = threading.Thread(target=self.process.stderr.read)
        self.log.start()

    def url(self, database="postgres"):
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([*(["pkill", "-TERM", "-f", f"{self.folder}/pgbouncer.ini"])])
        self.process.wait(20)
        self.log.join()
        shutil.rmtree(self.folder, ignore_errors=True)
