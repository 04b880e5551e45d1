"""OpenLDAP and SSSD as the distributions package them.

The programs and the LDAP schemas come from Debian's packages on the machine that runs the rehearsal.
"""

from __future__ import annotations

from rehearsal.image.package import Package

#: Folder on a host with the LDAP schemas.
_SCHEMA = "/usr/lib/rehearsal/schema"
#: SSSD's own unit (sssd 2.8, src/sysv/systemd/sssd.service.in), without the unit's resource limits.
_UNIT = """[Unit]
Description=System Security Services Daemon
Before=systemd-user-sessions.service nss-user-lookup.target

[Service]
Environment=DEBUG_LOGGER=--logger=files
EnvironmentFile=-/etc/sysconfig/sssd
EnvironmentFile=-/etc/default/sssd
ExecStart=/usr/sbin/sssd -i ${DEBUG_LOGGER}
Type=notify
NotifyAccess=main
PIDFile=/run/sssd.pid

[Install]
WantedBy=multi-user.target
"""
_SSSD: Package = {
    "version": "2.9.4-1",
    "files": [("text", "/usr/lib/systemd/system/sssd.service", _UNIT)],
    "postinst": """install -d /etc/sssd/conf.d /var/log/sssd
cd /var/lib && install -d sss sss/gpo_cache sss/mc sss/pipes sss/pubconf && install -d -m 700 sss/db sss/secrets
install -d -m 750 sss/pipes/private
""",
}
DEBIAN: dict[str, Package] = {
    "slapd": {
        "version": "2.6.7+dfsg-1~exp1ubuntu8",
        "postinst": f"""getent passwd openldap || useradd --system --home-dir /var/lib/ldap --shell /bin/false openldap
install -d /etc/ldap && cp -r {_SCHEMA} /etc/ldap/schema
install -d -o openldap -g openldap -m 700 /var/lib/ldap
""",
    },
    "sssd-ldap": _SSSD,
    **dict.fromkeys(("ldap-utils", "libnss-sss", "libpam-sss"), Package()),
}
#: The package of OpenLDAP's server. From Oracle Linux 9 on, only EPEL has this package; the distribution has the clients.
EPEL: Package = {
    "version": "2.6.6-4.el9",
    "postinst": f"""getent passwd ldap || useradd --system --home-dir /var/lib/ldap --shell /sbin/nologin ldap
install -d /etc/openldap /usr/lib64 && cp -r {_SCHEMA} /etc/openldap/schema
install -d -o ldap -g ldap -m 700 /var/lib/ldap
ln -sfn /usr/lib/ldap /usr/lib64/openldap
""",
}
EL: dict[str, Package] = {"openldap-clients": Package(), "sssd-ldap": _SSSD}
