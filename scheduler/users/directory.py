"""The user directory as OpenLDAP's files: its configuration, its first entries, its unit and its certificate request.

The base and the group `privilege` are the same as in OCI's HPC stack (oci-hpc, roles/openldap and roles/privilege_group). Two
things differ from that stack: the group gives no permission, and there are no passwords. Root administers the directory over
the local socket, and nobody else may change it.
"""

from typing import Dict, List, NamedTuple

from scheduler.slurm_conf import MARK

BASE = "dc=local"
PEOPLE = f"ou=People,{BASE}"
GROUPS = f"ou=Group,{BASE}"
#: The primary group of new users by default. In OCI's HPC stack its members have sudo; here it gives no permission.
PRIVILEGE, PRIVILEGE_GID = "privilege", 9876
UNIT = "busbar-directory.service"
SLAPD = "/usr/sbin/slapd"
#: Root on the local socket, as slapd names it (slapd(8), EXTERNAL over ldapi).
ROOT = "gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"
#: Attributes that machines may read without a login; none is secret. Only root on the controller can read other attributes.
READABLE = ("entry", "objectClass", "uid", "cn", "uidNumber", "gidNumber", "homeDirectory", "loginShell", "memberUid", "ou")
#: Maximum size of the database: 1 GiB, because slapd's default of 10 MiB suffices only for some thousand users. The database is
#: a sparse file, which uses no disk space in advance.
_MOST_BYTES = 1 << 30
#: Each machine keeps one connection or a few open, and slapd's default limit is 1024 files.
_MOST_FILES = 65536
#: A controller keeps its certificate as long as it exists, so the certificate must be valid for longer than a cluster lives.
CERTIFICATE_DAYS = 3650


class Layout(NamedTuple):
    """Paths of a distribution's OpenLDAP.

    Attributes:
        conf: OpenLDAP's folder in /etc, where mandatory access control lets slapd read.
        user: the user that slapd runs as; its group has the same name.
        modules: folder of slapd's modules.
        module: whether the database backend is a separate module in that folder, and not a part of slapd.
    """

    conf: str
    user: str
    modules: str
    module: bool = True

    @property
    def folder(self) -> str:
        """Path of the folder with the files of this user directory, such as its configuration and certificate."""
        return f"{self.conf}/busbar"

    @property
    def data(self) -> str:
        """Folder of the database."""
        return "/var/lib/ldap/busbar"


class User(NamedTuple):
    """One user; `gid` is the id of the primary group, `home` the path of the home folder."""

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
        # The server's controls and its schema: clients read them before they search.
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
    """Return the entries with which a new directory begins, parents first."""
    return [
        {"dn": [BASE], "objectClass": ["dcObject", "organization"], "dc": ["local"], "o": ["local"]},
        {"dn": [PEOPLE], "objectClass": ["organizationalUnit"], "ou": ["People"]},
        {"dn": [GROUPS], "objectClass": ["organizationalUnit"], "ou": ["Group"]},
        group_entry(PRIVILEGE, PRIVILEGE_GID),
    ]


def user_dn(name: str) -> str:
    """Return the distinguished name of a user's entry."""
    return f"uid={name},{PEOPLE}"


def group_dn(name: str) -> str:
    """Return the distinguished name of a group's entry."""
    return f"cn={name},{GROUPS}"


def group_entry(name: str, gid: int) -> Dict[str, List[str]]:
    """Return a group's entry."""
    return {"dn": [group_dn(name)], "objectClass": ["posixGroup"], "cn": [name], "gidNumber": [str(gid)]}


def user_entry(user: User) -> Dict[str, List[str]]:
    """Return a user's entry.

    The full name is in `cn`, which may have non-ASCII letters; `gecos` may not (RFC 2307). Without `gecos`, SSSD uses `cn`.
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
    """Return openssl-req(1)'s configuration of a self-signed certificate that names the controller."""
    lines = [
        *("[req]", "prompt = no", "distinguished_name = name", "x509_extensions = extensions"),
        *("[name]", "O = busbar", f"CN = {hostname[:64]}"),
        *("[extensions]", f"subjectAltName = DNS:{hostname},IP:{address}", "basicConstraints = critical,CA:true,pathlen:0"),
        *("keyUsage = critical,digitalSignature,keyCertSign", "extendedKeyUsage = serverAuth", "subjectKeyIdentifier = hash"),
    ]
    return "\n".join(lines) + "\n"
