"""What a machine needs to know the cluster's users: SSSD's configuration, and where the controller's certificate lies."""

from scheduler.users.directory import BASE, GROUPS, PEOPLE

SSSD_CONF = "/etc/sssd/sssd.conf"
CERTIFICATE = "/etc/sssd/busbar-directory.pem"
#: A deleted user is known to a machine for this long at most, and one lookup a minute of each user costs the controller little.
KNOWN_S = 60
#: How long a machine believes that a user does not exist: users are used right after they are added.
_UNKNOWN_S = 5
#: The first wait of a machine that the controller did not answer; later ones are longer, up to four times.
_AWAY_S = 5
#: Numbers below are the machines' own users; no entry can make a user root.
LEAST_ID = 1000


def sssd_conf(controller: str, mark: str) -> str:
    """Return sssd.conf(5) of a machine that reads the directory at the address `controller`.

    SSH keys are in the shared home, so nobody logs in with what SSSD knows; it only says who exists.
    """
    lines = [
        mark,
        "[sssd]",
        "config_file_version = 2",
        "services = nss, pam",
        "domains = busbar",
        "",
        "[nss]",
        # slapd asks for its own user while it starts, and SSSD would wait for slapd.
        "filter_users = root, openldap, ldap",
        "filter_groups = root",
        f"entry_negative_timeout = {_UNKNOWN_S}",
        # Programs read this cache without asking SSSD, so it must not outlive the other.
        f"memcache_timeout = {KNOWN_S}",
        "",
        "[domain/busbar]",
        "id_provider = ldap",
        "auth_provider = none",
        "chpass_provider = none",
        "sudo_provider = none",
        "autofs_provider = none",
        "access_provider = permit",
        f"ldap_uri = ldaps://{controller}",
        "ldap_schema = rfc2307",
        f"ldap_search_base = {BASE}",
        f"ldap_user_search_base = {PEOPLE}",
        f"ldap_group_search_base = {GROUPS}",
        f"ldap_tls_cacert = {CERTIFICATE}",
        "ldap_tls_reqcert = demand",
        f"min_id = {LEAST_ID}",
        f"entry_cache_timeout = {KNOWN_S}",
        "cache_credentials = false",
        "enumerate = false",
        "ldap_network_timeout = 3",
        # After the controller was away, machines ask it again soon, and not all at the same moment.
        f"offline_timeout = {_AWAY_S}",
        f"offline_timeout_max = {4 * _AWAY_S}",
        f"offline_timeout_random_offset = {_AWAY_S}",
    ]
    return "\n".join(lines) + "\n"
