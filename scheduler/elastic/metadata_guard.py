"""Makes the systemd unit that prevents a machine's users from reading the machine's cloud credentials.

On the controller and on login nodes, people log in. The metadata service of a cloud gives the machine's credentials to any
program on the machine. On the controller these credentials may start and terminate machines.
"""

from typing import Dict

from scheduler.slurm_conf import MARK
from scheduler.users.accepted import LEAST, MOST

NAME = "busbar-metadata.service"
#: Address and port of the metadata service on both clouds. At the same address, OCI also answers DNS queries, on port 53.
_ADDRESS, _PORT = "169.254.169.254", 80
#: Priority of the rule among the kernel's routing rules. The table for all other traffic has 32766, so this rule comes first.
_PRIORITY = 1692
_IP = "/usr/sbin/ip"


def units() -> Dict[str, str]:
    """Return the unit by its name.

    A routing rule (ip-rule(8)) refuses connections from the processes of people, by their user ids; root and the system's own
    users still reach the service. The rule needs no firewall, so no reload of a firewall removes it.
    """
    match = f"uidrange {LEAST}-{MOST} to {_ADDRESS} ipproto tcp dport {_PORT}"
    lines = [
        MARK,
        "[Unit]",
        "Description=Refuses the metadata service to users",
        "Before=ssh.service sshd.service slurmctld.service",
        "",
        "[Service]",
        "Type=oneshot",
        "RemainAfterExit=yes",
        f"ExecStartPre=-{_IP} rule delete priority {_PRIORITY}",
        f"ExecStart={_IP} rule add priority {_PRIORITY} {match} prohibit",
        f"ExecStop=-{_IP} rule delete priority {_PRIORITY}",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return {NAME: "\n".join(lines) + "\n"}
