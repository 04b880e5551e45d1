"""Streams between rehearsed hosts over one rail, and their measured rates."""

from __future__ import annotations

import subprocess
import time

from child_process import started
from rehearsed_hosts import RAILS

# The first boot from a tutorial of oracle-japan/ocitutorials, shortened: NCCL from NVIDIA's repository, scratch on NVMe,
# firewall off, every rail up.
FIRST_BOOT = """#cloud-config
yum_repos:
  cuda-rhel7-x86_64:
    name: cuda-rhel7-x86_64
    baseurl: https://developer.download.nvidia.com/compute/cuda/repos/rhel7/x86_64
    enabled: true
    gpgcheck: true
packages: [libnccl, libnccl-devel]
write_files:
  - {path: /etc/sudoers.d/kept, content: "", permissions: "0440"}
runcmd:
  - vgcreate nvme /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1
  - lvcreate -l 100%FREE nvme
  - mkfs.xfs -L localscratch /dev/nvme/lvol0
  - mkdir -p /mnt/localdisk
  - echo "LABEL=localscratch /mnt/localdisk/ xfs defaults,noatime 0 0" >> /etc/fstab
  - mount /mnt/localdisk
  - systemctl disable --now firewalld
  - |
    y=$(ifconfig enp45s0f0 | head -2 | tail -1 | awk '{print $2}' | awk -F. '{print $4}')
    x=0
    for rail in RAILS; do
      printf 'DEVICE=%s\\nBOOTPROTO="none"\\nIPADDR=192.168.%s.%s\\nNETMASK=255.255.255.0\\n' $rail $x $y \\
        > /etc/sysconfig/network-scripts/ifcfg-$rail
      ifup $rail
      x=$((x+1))
    done
  - echo user data was here > /dev/console
""".replace("RAILS", " ".join(RAILS))
SEND = (
    "python3 -c \"import socket,time;c=socket.create_connection(('{0}',5001),5,('{2}',0));e=time.time()+{1}\n"
    "while time.time()<e: c.send(b'x'*65536)\""
)
RECEIVE = (
    "python3 -c \"import socket,time;s=socket.create_server(('{0}',5001));s.settimeout(10);c,_=s.accept();n=len(c.recv(1));"
    't=time.time()\nwhile b:=c.recv(65536): n+=len(b)\nprint(n*8/(time.time()-t)/1e6)"'
)


def megabits(stage, sender, receiver, source, address):
    """Return the Mbit/s of one stream between addresses of two hosts; the stream leaves by the rail of its source address."""
    pid = (stage.world.path / "hosts" / receiver / "pid").read_text()
    argv = ["nsenter", "-t", pid, "-n", "bash", "-c", RECEIVE.format(address)]
    with started(argv, stdout=subprocess.PIPE, text=True) as listening:
        for _ in range(100):
            if ":5001 " in subprocess.run([*argv[:4], "ss", "-ltn"], capture_output=True, text=True, check=True).stdout:
                break
            time.sleep(0.05)
        stage.inside(sender, SEND.format(address, 2, source))
        return float(listening.communicate(timeout=20)[0])
