"""Configuration of SSSD on a machine that uses the cluster's users, and the path of the controller's certificate."""

from scheduler.users.directory import BASE, GROUPS, PEOPLE

SSSD_CONF = "/etc/sssd/sssd.conf"
CERTIFICATE = "/etc/sssd/busbar-directory.pem"
#: SSSD caches a user, even a deleted one, for this long (s), or longer while the controller does not answer. SSSD's second
#: cache may show the user to programs for another period of this length. One look-up a minute per user is a small load.
KNOWN_S = 60
#: How long (s) a machine caches the answer that a user does not exist. Short, because new users want to log in right away.
_UNKNOWN_S = 5
#: First pause (s) before a machine asks the controller again if it did not answer; later pauses are up to four times as long.
_AWAY_S = 5
#: SSSD ignores smaller ids, so that no entry can make a user root; smaller ids belong to the machines' own users.
LEAST_ID = 1000


def sssd_conf(controller: str, mark: str) -> str:
    """Return sssd.conf(5) of a machine that reads the directory at the address `controller`.

    SSH keys are in the shared home folders, so SSSD authenticates no login; it only looks up users and groups.
    """
    lines = [
        mark,
        "[sssd]",
        "config_file_version = 2",
        "services = nss, pam",
        "domains = busbar",
        "",
        "[nss]",
        # slapd looks up its own user while it starts, and SSSD would wait for slapd.
        "filter_users = root, openldap, ldap",
        "filter_groups = root",
        f"entry_negative_timeout = {_UNKNOWN_S}",
        # Programs read this memory cache without asking SSSD, so its entries must not be valid longer than those that SSSD
        # caches itself.
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
        # After an outage of the controller, machines ask it again soon, but not all at the same moment.
        f"offline_timeout = {_AWAY_S}",
        f"offline_timeout_max = {4 * _AWAY_S}",
        f"offline_timeout_random_offset = {_AWAY_S}",
    ]
    return "\n".join(lines) + "\n"
