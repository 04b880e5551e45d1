"""The directory of users, as OpenLDAP's files: its configuration, its first entries, its unit and its certificate's request.

The base and the group of the people who may run containers are those of OCI's HPC stack (oci-hpc, roles/openldap and roles/
privilege_group). Unlike there, no password exists: root administers it over the local socket, and nobody else may change it.
"""

from typing import Dict, List, NamedTuple

from scheduler.slurm_conf import MARK

BASE = "dc=local"
PEOPLE = f"ou=People,{BASE}"
GROUPS = f"ou=Group,{BASE}"
#: Its members may run containers; it gives no other right.
PRIVILEGE, PRIVILEGE_GID = "privilege", 9876
UNIT = "busbar-directory.service"
SLAPD = "/usr/sbin/slapd"
#: Root on the local socket, as slapd names it (slapd(8), EXTERNAL over ldapi).
ROOT = "gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"
#: What machines read without a login. None of it is secret, and what is not listed cannot be read.
READABLE = ("entry", "objectClass", "uid", "cn", "uidNumber", "gidNumber", "homeDirectory", "loginShell", "memberUid", "ou")
#: A sparse file, so it costs no disk before it is used; the default of 10 MiB holds some thousand users.
_MOST_BYTES = 1 << 30
#: A machine keeps one connection or a few, and slapd's default is 1024 files.
_MOST_FILES = 65536
#: The certificate is made again with a new controller, and its life is not to be what ends a cluster.
CERTIFICATE_DAYS = 3650


class Layout(NamedTuple):
    """Where a distribution's OpenLDAP is.

    Attributes:
        conf: its folder in /etc, where mandatory access control lets slapd read.
        user: who slapd runs as; its group has the same name.
        modules: folder of slapd's modules.
        module: whether the database is such a module.
    """

    conf: str
    user: str
    modules: str
    module: bool = True

    @property
    def folder(self) -> str:
        """Folder of this directory's own files."""
        return f"{self.conf}/busbar"

    @property
    def data(self) -> str:
        """Folder of the database."""
        return "/var/lib/ldap/busbar"


class User(NamedTuple):
    """One user; `gid` is the number of the first group, `home` the user's own folder."""

    name: str
    uid: int
    gid: int
    full_name: str
    home: str
    shell: str


def slapd_conf(where: Layout) -> str:
    """Return slapd.conf(5)."""
    lines = [MARK, *(f"include {where.conf}/schema/{name}.schema" for name in ("core", "cosine", "nis"))]
    if where.module:
        lines += [f"modulepath {where.modules}", "moduleload back_mdb"]
    lines += [
        "loglevel none",
        "disallow bind_simple",
        "require none",
        f"TLSCACertificateFile {where.folder}/certificate.pem",
        f"TLSCertificateFile {where.folder}/certificate.pem",
        f"TLSCertificateKeyFile {where.folder}/key.pem",
        "TLSProtocolMin 3.3",
        # Which controls the server knows, and its schema: clients ask before they search.
        'access to dn.base="" by * read',
        'access to dn.base="cn=Subschema" by * read',
        "database mdb",
        f'suffix "{BASE}"',
        f'rootdn "{ROOT}"',
        f"directory {where.data}",
        f"maxsize {_MOST_BYTES}",
        "index objectClass,uid,cn,uidNumber,gidNumber,memberUid eq",
        "access to attrs=userPassword,shadowLastChange by * none",
        f'access to dn.subtree="{BASE}" attrs={",".join(READABLE)} by * read',
        "access to * by * none",
    ]
    return "\n".join(lines) + "\n"


def first_entries() -> List[Dict[str, List[str]]]:
    """Return the entries of an empty directory, parents first."""
    return [
        {"dn": [BASE], "objectClass": ["dcObject", "organization"], "dc": ["local"], "o": ["local"]},
        {"dn": [PEOPLE], "objectClass": ["organizationalUnit"], "ou": ["People"]},
        {"dn": [GROUPS], "objectClass": ["organizationalUnit"], "ou": ["Group"]},
        group_entry(PRIVILEGE, PRIVILEGE_GID),
    ]


def user_dn(name: str) -> str:
    """Return the name of a user's entry."""
    return f"uid={name},{PEOPLE}"


def group_dn(name: str) -> str:
    """Return the name of a group's entry."""
    return f"cn={name},{GROUPS}"


def group_entry(name: str, gid: int) -> Dict[str, List[str]]:
    """Return a group's entry."""
    return {"dn": [group_dn(name)], "objectClass": ["posixGroup"], "cn": [name], "gidNumber": [str(gid)]}


def user_entry(user: User) -> Dict[str, List[str]]:
    """Return a user's entry.

    The full name is in `cn`, which may have letters of any alphabet; `gecos` may not (RFC 2307), and SSSD uses `cn` without it.
    """
    return {
        "dn": [user_dn(user.name)],
        "objectClass": ["account", "posixAccount"],
        "uid": [user.name],
        "cn": [user.full_name or user.name],
        "uidNumber": [str(user.uid)],
        "gidNumber": [str(user.gid)],
        "homeDirectory": [user.home],
        "loginShell": [user.shell],
    }


def unit(where: Layout, address: str) -> str:
    """Return the unit of slapd, which listens on the local socket for root and at `address`, with TLS only, for machines."""
    command = f'{SLAPD} -d 0 -h "ldapi:/// ldaps://{address}:636" -u {where.user} -g {where.user} -f {where.folder}/slapd.conf'
    lines = [
        *(MARK, "[Unit]", "Description=Directory of the cluster's users"),
        *("After=network-online.target", "Wants=network-online.target", "Conflicts=slapd.service", ""),
        # Debian's socket is in this folder.
        *("[Service]", "Type=simple", f"ExecStart={command}", "RuntimeDirectory=slapd"),
        *(f"LimitNOFILE={_MOST_FILES}", "Restart=on-failure", "RestartSec=5", ""),
        *("[Install]", "WantedBy=multi-user.target"),
    ]
    return "\n".join(lines) + "\n"


def certificate_request(hostname: str, address: str) -> str:
    """Return openssl-req(1)'s configuration of a certificate that is its own authority and names the controller."""
    lines = [
        *("[req]", "prompt = no", "distinguished_name = name", "x509_extensions = extensions"),
        *("[name]", "O = busbar", f"CN = {hostname[:64]}"),
        *("[extensions]", f"subjectAltName = DNS:{hostname},IP:{address}", "basicConstraints = critical,CA:true,pathlen:0"),
        *("keyUsage = critical,digitalSignature,keyCertSign", "extendedKeyUsage = serverAuth", "subjectKeyIdentifier = hash"),
    ]
    return "\n".join(lines) + "\n"
