"""The web servers that the benchmarks compare. Each serves the folder `site` below `where` without TLS and, where `where` holds a
certificate, with TLS and HTTP/2 on a second port. None of them logs or compresses; all keep connections open for five minutes."""
import os
import subprocess

from harness import BUILD, Program, free_port, sluice

CIPHER = "TLS_AES_128_GCM_SHA256"


def make_site(where, **sizes):
    """Makes a file NAME.html of each size."""
    site = where / "site"
    site.mkdir()
    for name, size in sizes.items():
        (site / f"{name}.html").write_bytes(b"a" * size)


def make_certificate(where):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                    "-subj", "/CN=localhost", "-keyout", where / "key.pem", "-out", where / "cert.pem"],
                   check=True, capture_output=True)


def floor(_, body=1500, core=0):
    port = free_port()
    return Program("floor", [BUILD / "bench/floor_epoll", port, body], port, core)


def _start(name, command, ports, core):
    program = Program(name, command, ports[0], core)
    program.tls_port = ports[1]
    program.h2c_port = program.port
    return program


def _ports(where):
    return free_port(), free_port() if (where / "cert.pem").exists() else None


def nginx(where, workers=1, core=0):
    port, tls_port = ports = _ports(where)
    h2c_port = free_port()  # nginx 1.22 has HTTP/1.1 or HTTP/2 in the clear on a port, not both
    file = where / f"nginx-{port}.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""
    tls = f'''listen 127.0.0.1:{tls_port} ssl http2 reuseport backlog=4096;
    ssl_certificate {where}/cert.pem; ssl_certificate_key {where}/key.pem;
    ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites {CIPHER};''' if tls_port else ""
    file.write_text(f'''{user}daemon off; worker_processes {workers}; worker_rlimit_nofile 40000; pid {where}/nginx-{port}.pid;
error_log {where}/nginx.log;
events {{ worker_connections 20000; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; keepalive_timeout 300s; open_file_cache max=1000;
  types {{ text/html html; }}
  client_body_temp_path {where}/t1; proxy_temp_path {where}/t2; fastcgi_temp_path {where}/t3;
  uwsgi_temp_path {where}/t4; scgi_temp_path {where}/t5;
  server {{
    listen 127.0.0.1:{port} reuseport backlog=4096; root {where}/site;
    listen 127.0.0.1:{h2c_port} http2 reuseport backlog=4096;
    {tls}
  }}
}}
''')
    program = _start("nginx", ["nginx", "-c", file, "-p", where, "-e", where / "nginx.log"], ports, core)
    program.h2c_port = h2c_port
    return program


def h2o(where, workers=1, core=0):
    port, tls_port = ports = _ports(where)
    file = where / f"h2o-{port}.conf"
    user = "user: root\n" if os.geteuid() == 0 else ""
    tls = f'''listen:
  host: 127.0.0.1
  port: {tls_port}
  ssl: {{certificate-file: {where}/cert.pem, key-file: {where}/key.pem, cipher-preference: client}}
''' if tls_port else ""
    file.write_text(f'''{user}num-threads: {workers}
max-connections: 20000
http1-request-timeout: 300
http2-idle-timeout: 300
listen: {{host: 127.0.0.1, port: {port}}}
{tls}hosts: {{default: {{paths: {{"/": {{file.dir: {where}/site}}}}}}}}
''')
    return _start("h2o", ["h2o", "-c", file], ports, core)


def ours(where, workers=1, core=0, io="auto"):
    port, tls_port = ports = _ports(where)
    listen = [f"http://127.0.0.1:{port}"]
    tls = ""
    if tls_port:
        listen.append(f"https://127.0.0.1:{tls_port}")
        tls = f'[server.tls]\ncert = "{where}/cert.pem"\nkey = "{where}/key.pem"\n'
    program = sluice(f'{tls}[[files]]\npath = "/"\nroot = "{where}/site"\n', where, cores=workers, core=core, port=port,
                     server=f'listen = {listen}\nidle_timeout = "5m"\nio = "{io}"\n')
    program.tls_port = tls_port
    program.h2c_port = port
    if tls_port:
        program.wait_for(tls_port)
    return program


SERVERS = {"floor": floor, "sluice": ours, "h2o": h2o, "nginx": nginx}
