"""The step of a first boot that builds Pyxis, Slurm's plugin for containers, and makes PMI available in Enroot's containers.

Sources: Pyxis 0.24 (README.md, config.c), enroot 4.1 (conf/hooks/extra/50-slurm-pmi.sh, conf/enroot.conf.in).
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudinit import downloads
from cloudinit.steps import Step

_SOURCES = "https://github.com/NVIDIA/pyxis/archive/refs/tags"
_FOLDER = "/var/tmp/busbar-pyxis"  # noqa: S108 - root's build at first boot, before the cluster's users can log in
_BUILD_TIMEOUT_S = 300
#: Enroot's default options, and blocks of 256 KiB as in Oracle Japan's tutorial. With the default block size,
#: importing a large image is too slow.
_SQUASH = "-comp lzo -noD -exit-on-error -b 262144"


@dataclass(frozen=True)
class Pyxis:
    """The version of Pyxis to build, and where to install it.

    Attributes:
        version: version of Pyxis.
        sha256: sha256 of GitHub's archive of that version.
        plugin: path at which the plugin is installed.
        line: the line of plugstack.conf that loads the plugin.
    """

    version: str
    sha256: str
    plugin: str
    line: str


def build(wanted: Pyxis) -> Step:
    """Build Pyxis for the Slurm of this machine, and check that srun can load it, because a broken plugin stops every srun.

    Enroot's package contains a hook for PMI, but the package does not enable the hook. This step enables it. With the hook,
    containers see the folders of Slurm's PMIx server.
    """
    return Step(
        "pyxis",
        f"""
install -D -m 755 /usr/share/enroot/hooks.d/50-slurm-pmi.sh /etc/enroot/hooks.d/50-slurm-pmi.sh
mkdir -p /etc/enroot/enroot.conf.d {_FOLDER}
echo 'ENROOT_SQUASH_OPTIONS {_SQUASH}' > /etc/enroot/enroot.conf.d/busbar-slurm.conf
(
  cd {_FOLDER}
  printf 'ClusterName=check\nSlurmctldHost=localhost\nPlugStackConfig=%s/plugstack.conf\n' "$PWD" > slurm.conf
  echo '# none yet' > plugstack.conf
  export SLURM_CONF="$PWD/slurm.conf"
  number=$(awk '$2 == "SLURM_VERSION_NUMBER" {{print $3; exit}}' /usr/include/slurm/slurm_version.h)
  headers=$(printf '%d.%02d.%d' $((number >> 16)) $((number >> 8 & 255)) $((number & 255)))
  have=$(srun --version)
  if [ "${{have##* }}" != "$headers" ]; then
    echo "busbar: the headers are of Slurm $headers, but the machine has $have: Pyxis would break every srun"
    exit 1
  fi
  {downloads.checked(f"{_SOURCES}/v{wanted.version}.tar.gz", "pyxis.tar.gz", (wanted.sha256,))}
  tar -xzf pyxis.tar.gz --strip-components=1
  timeout {_BUILD_TIMEOUT_S} make > make.log 2>&1 || {{ tail -n 15 make.log; exit 1; }}
  install -D -m 644 spank_pyxis.so {wanted.plugin}
  echo '{wanted.line}' > plugstack.conf
  srun --help > help.log 2>&1 || true
  if ! grep -q -e --container-image help.log; then
    tail -n 3 help.log
    echo "busbar: srun does not load Pyxis {wanted.version}, which was built for Slurm $headers"
    exit 1
  fi
)
rm -r {_FOLDER}
""",
    )
