"""The settings of Slurm on a cluster's machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from catalogue.containers import ENROOT, PYXIS, PYXIS_SHA256, TOOLKIT_KEY, Container
from config.model import Model
from config.shared_values import Fingerprint, Sha256, three_numbers
from config.units import Minutes, Seconds
from scheduler import accounting, names
from scheduler.slurm_conf import CLIENT_PORTS, CONTROLLER_PORTS, DIRECTORY_PORT

#: Description of `enrootSha256`, wherever a stack file has it.
ENROOT_SUMS = (
    "sha256 of each package of enroot that machines may install: enroot and enroot+caps, for each package format and CPU "
    "architecture. NVIDIA publishes no checksums. If the list is empty, machines install what GitHub serves, and a preview "
    "warns."
)
#: Description of `toolkitKey`.
TOOLKIT_SIGNER = (
    "Fingerprint of the key that signs NVIDIA Container Toolkit's repository, which nodes on OCI use if their image lacks the "
    "toolkit. If another key signs the repository, first boot fails."
)

#: Description of `alwaysOn` on every cloud.
ALWAYS_ON = (
    "How many of the dynamic nodes are never stopped: the controller starts them at once, Slurm does not terminate them when "
    "they are idle, and a node that dies is started again."
)


class Slurm(Model):
    """A Slurm cluster of the machines: an existing one, or a new one whose controller is the head node."""

    queue: str = Field(
        default="compute",
        description="Name of the queue (Slurm's partition). In a new cluster, the queue contains all machines and "
        "is the default partition.",
        examples=["compute"],
    )
    existing: bool = Field(
        default=False,
        description="true if the machines already belong to a Slurm cluster that has this queue and knows the machines by "
        "the names used here: that cluster is used, and nothing is set up.",
        examples=[True],
    )

    @property
    def why_not(self) -> str:
        """Why Slurm does not allow the queue's name; empty if Slurm allows the name."""
        return names.refused_existing(self.queue) if self.existing else names.refused_queue(self.queue)


class Containers(Model):
    """Enroot and Pyxis on all machines of a Slurm cluster, so that `srun --container-image` starts tasks in an image."""

    enroot: Annotated[str, three_numbers(ENROOT)] = Field(
        default=ENROOT, description="Version of Enroot that is installed if an image has no Enroot.", examples=["4.1.1"]
    )
    enroot_sha256: tuple[Sha256, ...] = Field(default=(), description=ENROOT_SUMS, examples=[["4" * 64, "5" * 64]])
    toolkit_key: Fingerprint = Field(default=TOOLKIT_KEY, description=TOOLKIT_SIGNER, examples=[TOOLKIT_KEY])
    pyxis: Annotated[str, three_numbers(PYXIS)] = Field(
        default=PYXIS,
        description="Version of Pyxis, which every machine builds for its installed Slurm.",
        examples=["0.23.0"],
    )
    pyxis_sha256: Sha256 = Field(
        default=PYXIS_SHA256,
        description="sha256 of GitHub's source archive of that version (.tar.gz of its tag).",
        examples=[PYXIS_SHA256],
    )


class Scheduler(Model):
    """A Slurm cluster; its controller is the login node, which starts dynamic nodes for jobs and terminates idle nodes."""

    idle_min: Annotated[Minutes, Field(ge=1)] = Field(
        default=10, description="How long a dynamic node may be idle before it is terminated.", examples=["30 min"]
    )
    start_timeout_s: Annotated[Seconds, Field(ge=60)] = Field(
        default=1800,
        description="How long a dynamic node may take to start, first boot included, before its machine is terminated and "
        "Slurm marks the node down with the reason.",
        examples=["45 min"],
    )
    test_nodes: int = Field(
        default=2,
        ge=1,
        description="Number of nodes of the test job, whose busbw the next update exports; with alwaysOn of 2 or more, the job "
        "instead takes all nodes that always run.",
        examples=[4],
    )
    entry_test: bool = Field(
        default=False,
        description="New machines that start together are tested in pairs over their rails before they join. If one of them "
        "does not pass, all machines that start for the same job are terminated. A machine that starts by itself joins without "
        "a test. Off by default, because the test makes a start some minutes longer.",
        examples=[True],
    )
    entry_timeout_s: Annotated[Seconds, Field(ge=120)] = Field(
        default=900,
        description="How long the test of new machines may take, the build of nccl-tests included, before the machines are "
        "terminated and Slurm marks their nodes down with the reason.",
        examples=["20 min"],
    )
    login_nodes: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Number of login nodes in addition to the controller, for people who submit jobs. They have public "
        "addresses of their own, but not the controller's rights in the cloud.",
        examples=[2],
    )
    users: bool = Field(
        default=False,
        description="Makes the controller a directory of users (OpenLDAP) for all machines; `cluster user add` adds a user.",
        examples=[True],
    )
    accounting: bool = Field(
        default=False,
        description="Keeps jobs and users in a database on the controller (slurmdbd and MariaDB), which `sacct` reads; if "
        "`users` is true, `cluster user add` also gives the user an account there.",
        examples=[True],
    )
    containers: Containers | None = Field(
        default=None,
        description="Installs Enroot and Pyxis, with which jobs run in container images; {} takes the default versions.",
    )

    @property
    def ports(self) -> tuple[tuple[int, int, str], ...]:
        """TCP ports on which the controller and login nodes accept connections.

        Each item has the first and the last port of a range, and the program that listens there. People run srun on these
        machines, and nodes connect back to srun.
        """
        directory = ((DIRECTORY_PORT, DIRECTORY_PORT, "directory of users"),) if self.users else ()
        database = ((accounting.PORT, accounting.PORT, "slurmdbd"),) if self.accounting else ()
        return ((*CONTROLLER_PORTS, "slurmctld"), (*CLIENT_PORTS, "srun"), *directory, *database)

    def nodes_of_job(self, dynamic: int, always_on: int) -> int:
        """Return how many nodes of an entry the test job uses; 0 if the entry has too few.

        If `always_on` is 2 or more, the job uses all nodes that are always on; otherwise it uses `test_nodes` nodes.
        """
        nodes = always_on if always_on > 1 else self.test_nodes
        return nodes if dynamic >= nodes else 0

    def start_limit_s(self, always_on: int) -> float:
        """Return how long an update waits until the `always_on` nodes run.

        The result is 0 if fewer than two nodes always run: an update does not wait then, because a person must submit the job.
        """
        return self.start_timeout_s + self.entry_limit_s if always_on > 1 else 0

    @property
    def entry_limit_s(self) -> float:
        """Maximum time of the test of new machines; 0 if there is no test."""
        return self.entry_timeout_s if self.entry_test else 0


def in_jobs(image: Container | None, home: str) -> Container | None:
    """Return the image that the test job's ranks run in; enroot's file of the image is in `home`, where all nodes find it."""
    return replace(image, shared=home, runtime="pyxis") if image else None


def entry_script(folder: str, pool: str) -> str:
    """Return the path of the program that tests new machines of `pool`, in the folder of the test job."""
    return f"{folder}/entry-test-{pool}.sh"


def job_folder(home: str, stack: str) -> str:
    """Return the folder of the test job's files, on the file system mounted at `home`; empty if `home` is empty.

    `stack` names the stack (PROJECT.STACK): stacks that share a file system have a folder each.
    """
    return f"{home.rstrip('/')}/.busbar/{stack}" if home else ""
