"""Certificates for the tests, made by the openssl program, or by python3-cryptography for what openssl cannot make."""
import datetime
import subprocess

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


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

    def issue(self, name, hosts=("localhost",), days=30, key_type=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
              subject=None, names=()):
        """`subject`: "/O=Example/CN=ada"; `names`: more alternative names, such as "URI:spiffe://example/a"."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=" + ",".join(
            [*(("IP:" if host[0].isdigit() else "DNS:") + host for host in hosts), *names]))
        openssl("req", "-new", "-newkey", *key_type, "-nodes", "-utf8", "-subj", subject or f"/CN={name}", "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
                "-days", days, "-extfile", extensions, "-out", certificate)
        certificate.write_bytes(certificate.read_bytes() + self.ca.read_bytes())
        return certificate, key

    def issue_expired(self, name, host="localhost"):
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        own = ec.generate_private_key(ec.SECP256R1())
        authority = x509.load_pem_x509_certificate(self.ca.read_bytes())
        now = datetime.datetime.utcnow()
        made = (x509.CertificateBuilder()
                .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
                .issuer_name(authority.subject).public_key(own.public_key()).serial_number(x509.random_serial_number())
                .not_valid_before(now - datetime.timedelta(days=2)).not_valid_after(now - datetime.timedelta(days=1))
                .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), False)
                .sign(serialization.load_pem_private_key((self.folder / "ca.key").read_bytes(), None), hashes.SHA256()))
        certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM) + self.ca.read_bytes())
        key.write_bytes(own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                          serialization.NoEncryption()))
        return certificate, key


def tls_table(certificate, extra=""):
    return f'[server.tls]\ncert = "{certificate[0]}"\nkey = "{certificate[1]}"\n{extra}\n'
