"""A world's own certificate authority. All hosts of the world's clouds trust it, as real hosts trust public authorities."""

from __future__ import annotations

from pathlib import Path

from rehearsal.net import wires
from rehearsal.world.world import World

_FOLDER = "authority"
_DAYS = "3650"
_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _made(world: World) -> Path:
    """Return the authority's folder, which only root can read; create the authority if it does not exist."""
    folder = world.folder(_FOLDER)
    with wires.locked(world, "authority"):
        if not (folder / "ca.pem").exists():
            folder.chmod(0o700)
            own = ("-subj", "/CN=Rehearsed Root CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign")
            fresh = folder / "ca.new"
            files = ("-keyout", str(folder / "ca.key"), "-out", str(fresh))
            wires.call(["openssl", "req", "-x509", *_EC, "-days", _DAYS, *own, *files])
            fresh.rename(folder / "ca.pem")
    return folder


def texts(world: World) -> dict[str, tuple[str, int]]:
    """Return the text and mode of each file of an image's trust store, by path below the root.

    Each file contains the authority's certificate: one in OpenSSL's folder, the others where distributions have their bundles.
    """
    certificate = _made(world) / "ca.pem"
    name = wires.call(["openssl", "x509", "-noout", "-subject_hash", "-in", str(certificate)]).strip()
    places = (
        "etc/ssl/certs/ca-certificates.crt",
        f"etc/ssl/certs/{name}.0",
        "etc/pki/tls/certs/ca-bundle.crt",
        "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    )
    return dict.fromkeys(places, (certificate.read_text(), 0o644))


def issue(world: World, names: tuple[str, ...], to: Path) -> tuple[Path, Path]:
    """Write a server's certificate for these names, and the server's key, to a folder; return certificate and key file."""
    folder = _made(world)
    key, request, extensions, certificate = (to / f"server.{end}" for end in ("key", "csr", "ext", "pem"))
    alternatives = ",".join(f"DNS:{name}" for name in names)
    extensions.write_text(f"subjectAltName={alternatives}\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n")
    files = ("-keyout", str(key), "-out", str(request))
    wires.call(["openssl", "req", *_EC, "-subj", "/O=Rehearsed services", *files])
    signer = ("-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key"), "-CAcreateserial")
    about = ("-days", _DAYS, "-extfile", str(extensions), "-out", str(certificate))
    wires.call(["openssl", "x509", "-req", "-in", str(request), *signer, *about])
    return certificate, key
