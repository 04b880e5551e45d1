"""A whole stack file: one target, and what every target is measured, accepted and recorded by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from config import rules as stack_rules
from config.accept import Accept
from config.aws.facts import Facts as AwsFacts
from config.aws.model import Aws
from config.aws.rules import RULES as AWS_RULES
from config.hosts.model import SET, Hosts
from config.hosts.rules import RULES as HOSTS_RULES
from config.measure import Measure
from config.model import Model
from config.oci.facts import Facts as OciFacts
from config.oci.model import Oci
from config.oci.rules import RULES as OCI_RULES
from config.records import Records
from config.rule import ERROR, Finding, check

Target = Literal["oci", "aws", "hosts"]
TARGETS: dict[str, type[Model]] = {"oci": Oci, "aws": Aws, "hosts": Hosts}


class Stack(Model):
    """What one stack asks for."""

    target: Target = Field(
        description="Kind of cluster: oci (cluster networks of bare-metal GPU nodes), aws (machines with EFA), hosts (machines "
        "that exist).",
        examples=["oci"],
    )
    oci: Oci | None = Field(default=None, description="The cluster on OCI, for target oci.")
    aws: Aws | None = Field(default=None, description="The cluster on AWS, for target aws.")
    hosts: Hosts | None = Field(default=None, description="The machines that exist, for target hosts.")
    measure: Measure = Field(default=Measure(), description="How the cluster is measured.")
    accept: Accept = Field(default=Accept(), description="When the measured cluster is accepted.")
    records: Records = Field(default=Records(), description="What is kept of measurements beside the stack.")

    @property
    def wanted(self) -> Oci | Aws | Hosts:
        """The group of the target; its cluster component takes it."""
        found = self.oci or self.aws or self.hosts
        if found is None:
            raise ValueError(f"{self.target} is not set")
        return found

    @property
    def pool(self) -> str:
        """Name of the pool, or queue and machines, that is measured."""
        if self.oci is not None:
            return self.oci.measured(self.measure).name
        return self.aws.measured(self.measure) if self.aws is not None else SET

    def breaches(self) -> Iterator[Finding]:
        """Yield the errors that need no account."""
        yield from (found for found in self._findings() if found.severity == ERROR)

    def _findings(self) -> tuple[Finding, ...]:
        own: tuple[Finding, ...] = ()
        if self.oci is not None:
            own = check(OCI_RULES, self.oci, OciFacts(), self.oci.suppress, "oci.suppress")
            own += self._pool(self.oci.sizes, "oci.pools")
        if self.aws is not None:
            own = check(AWS_RULES, self.aws, AwsFacts(), self.aws.suppress, "aws.suppress")
            own += self._pool(self.aws.sizes, "aws.queues")
        if self.hosts is not None:
            own = check(HOSTS_RULES, self.hosts, None)
        return (*own, *check(stack_rules.RULES, self.measure, self.accept))

    def _pool(self, nodes: dict[str, int], where: str) -> tuple[Finding, ...]:
        return tuple(Finding("pool", ERROR, path, text) for path, text in stack_rules.pool_chosen(self.measure, nodes, where))
