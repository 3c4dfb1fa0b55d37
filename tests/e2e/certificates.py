"""Certificates for the tests, made by the openssl program."""
import subprocess


def openssl(*arguments, **options):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, **options)


class Authority:
    """Signs certificates with the openssl program; its files are in one folder."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.ca = folder / "ca.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 30, "-subj",
                f"/CN=CA {folder.name}", "-keyout", folder / "ca.key", "-out", self.ca)

    def issue(self, name, hosts=("localhost",), days=30, key_type=("ec", "-pkeyopt", "ec_paramgen_curve:P-256")):
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=" + ",".join(
            ("IP:" if host[0].isdigit() else "DNS:") + host for host in hosts))
        openssl("req", "-new", "-newkey", *key_type, "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
                "-days", days, "-extfile", extensions, "-out", certificate)
        certificate.write_bytes(certificate.read_bytes() + self.ca.read_bytes())
        return certificate, key


def tls_table(certificate, extra=""):
    return f'[server.tls]\ncert = "{certificate[0]}"\nkey = "{certificate[1]}"\n{extra}\n'
