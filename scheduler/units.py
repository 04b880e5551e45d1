"""Makes the systemd units of slurmctld and slurmd."""

from typing import Dict

from scheduler.slurm_conf import CONTROLLER_PORTS, MARK


def units(controller_address: str) -> Dict[str, str]:
    """Return the systemd units by name.

    They replace the units of the packages. Nodes have no /etc/slurm/slurm.conf: their slurmd asks the controller for it.
    """
    server = f"{controller_address}:{CONTROLLER_PORTS[0]}"
    return {
        "slurmctld.service": _unit("Slurm's controller", "/usr/sbin/slurmctld -D"),
        "slurmd.service": _unit("Slurm on a node", f"/usr/sbin/slurmd -D --conf-server {server}"),
    }


def _unit(description: str, command: str) -> str:
    lines = [
        MARK,
        "[Unit]",
        f"Description={description}",
        # Before a daemon starts, the home folders must be mounted (remote-fs.target) and sssd must run. Jobs need the home
        # folders, and sssd looks up the users to whom jobs belong.
        "After=network-online.target munge.service remote-fs.target sssd.service",
        "Wants=network-online.target munge.service",
        "",
        "[Service]",
        "Type=simple",
        f"ExecStart={command}",
        "ExecReload=/bin/kill -HUP $MAINPID",
        # With these settings, jobs survive a restart of the daemon, and RDMA can lock memory.
        "KillMode=process",
        "Delegate=yes",
        "LimitNOFILE=131072",
        "LimitMEMLOCK=infinity",
        "LimitSTACK=infinity",
        "TasksMax=infinity",
        "Restart=on-failure",
        "RestartSec=5",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"
