"""Certificates for the tests, made by the openssl program, or by python3-cryptography for what openssl cannot make."""
import datetime
import subprocess

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def openssl(*arguments, **options):
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, **options)


class Authority:
    """Signs certificates with the openssl program; its files are in one folder. `issuer`: the authority that signs its own
    certificate; without it, that is self-signed."""

    def __init__(self, folder, issuer=None):
        self.folder = folder
        folder.mkdir()
        self.ca = folder / "ca.pem"
        made = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN=CA {folder.name}",
                "-keyout", folder / "ca.key")
        if issuer is None:
            openssl(*made, "-x509", "-days", 90, "-out", self.ca)
            return
        extensions = folder / "ca.ext"
        extensions.write_text("basicConstraints=critical,CA:TRUE\n")
        openssl(*made, "-out", folder / "ca.csr")
        openssl("x509", "-req", "-in", folder / "ca.csr", "-CA", issuer.ca, "-CAkey", issuer.folder / "ca.key", "-CAcreateserial",
                "-days", 90, "-extfile", extensions, "-out", self.ca)

    def revocation_list(self, *revoked, expired=False):
        """PEM. `revoked`: files whose first certificate this authority has issued."""
        now = datetime.datetime.utcnow()
        begin, end = (now - datetime.timedelta(days=days) for days in ((2, 1) if expired else (1, -7)))
        made = x509.CertificateRevocationListBuilder().issuer_name(x509.load_pem_x509_certificate(self.ca.read_bytes()).subject)
        made = made.last_update(begin).next_update(end)
        for file in revoked:
            serial = x509.load_pem_x509_certificate(file.read_bytes()).serial_number
            made = made.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(begin).build())
        key = serialization.load_pem_private_key((self.folder / "ca.key").read_bytes(), None)
        return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, name, hosts=("localhost",), days=90, key_type=("ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
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
