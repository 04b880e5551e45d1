"""The rehearsal's nccl-tests: their transcripts, their arithmetic, and their output if a rail is slow, dead or absent.

The hosts here are only network, mount and host-name namespaces with shaped rails, so that nothing but the program is tested.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from wait_until import wait_until

pytestmark = pytest.mark.xdist_group("nccl-tests")
SOURCE = Path(__file__).resolve().parents[2] / "rehearsal" / "nccl-tests"
MPI_HOME = "/usr/lib/x86_64-linux-gnu/openmpi"
SCALE = 4000
LETTERS = iter("abcdefgh")  # several benches may exist at once
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "transcripts"
RAIL_BITS_PER_S = 100_000_000  # four rails of this rate carry as much as sixteen rails of a rehearsed host
BUILD_TOOLS = shutil.which("gcc") and shutil.which("make") and Path(MPI_HOME, "include", "mpi.h").is_file()
needs_build_tools = pytest.mark.skipif(not BUILD_TOOLS, reason="needs gcc, make and libopenmpi-dev")


def run(*argv: str, timeout_s: float = 60, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, text=True, capture_output=True, timeout=timeout_s, check=False, **options)  # type: ignore[call-overload,no-any-return]


def make(folder: Path, *variables: str) -> subprocess.CompletedProcess[str]:
    """Build into `folder`. Only a GPU host has nvcc and nccl.h, so the build gets stand-ins for both."""
    nvcc = folder / "cuda" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True, exist_ok=True)
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o755)
    header = folder / "nccl" / "include" / "nccl.h"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text("#define NCCL_MAJOR 2\n#define NCCL_VERSION_CODE 22809\n")
    chosen = {"CUDA_HOME": str(folder / "cuda"), "NCCL_HOME": str(folder / "nccl"), "BUILDDIR": str(folder / "build")}
    chosen |= dict(one.split("=", 1) for one in variables)
    return run("make", "-C", str(SOURCE), *(f"{name}={value}" for name, value in chosen.items()))


@pytest.fixture(scope="session")
def with_mpi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mpi")
    made = make(folder, "MPI=1", f"MPI_HOME={MPI_HOME}")
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "build" / "all_reduce_perf"


@pytest.fixture(scope="session")
def without_mpi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain")
    made = make(folder)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "build" / "all_reduce_perf"


@dataclass
class Bench:
    """The hosts of one test: namespaces `<tag>h0`, `<tag>h1`..., whose rails are bridged in the namespace `<tag>f`."""

    folder: Path
    hosts: int
    ranks: int
    rails: int
    tag: str = field(default_factory=lambda: f"bn{os.getpid() % 100000}{next(LETTERS)}")
    holders: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def netns(self, host: int | str) -> str:
        return f"{self.tag}h{host}" if isinstance(host, int) else f"{self.tag}{host}"

    def shape(self, netns: str, device: str, bits_per_s: int) -> None:
        self.ip(f"netns exec {netns} tc qdisc replace dev {device} root tbf rate {bits_per_s} burst 128k limit 1m")

    def rail_rate(self, host: int, rail: int, bits_per_s: int) -> None:
        """Set the rate at both ends of the cable between one rail of a host and the fabric."""
        self.shape(self.netns(host), f"r{rail}", bits_per_s)
        self.shape(self.netns("f"), f"h{host}r{rail}", bits_per_s)

    @staticmethod
    def ip(command: str) -> str:
        done = run("ip", *command.split())
        assert done.returncode == 0, f"ip {command}: {done.stderr}"
        return done.stdout

    def batch(self, netns: str, tool: str, lines: list[str]) -> None:
        done = run("ip", "netns", "exec", netns, tool, "-batch", "-", input="\n".join(lines) + "\n")
        assert done.returncode == 0, done.stderr

    def up(self) -> None:
        fabric = self.netns("f")
        self.ip(f"netns add {fabric}")
        lines = [f"link add br{r} mtu 9000 up type bridge" for r in range(self.rails)]
        self.batch(fabric, "ip", [*lines, "link add front up type bridge"])
        for host in range(self.hosts):
            name = self.netns(host)
            self.ip(f"netns add {name}")
            for key in ("congestion_control=reno", "no_metrics_save=1", "slow_start_after_idle=0"):
                run("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv4.tcp_{key}")
            lines = [
                f"link add r{r} mtu 9000 type veth peer name h{host}r{r} mtu 9000 netns {fabric}" for r in range(self.rails)
            ]
            lines += [f"addr add 10.{r}.0.{host + 1}/24 dev r{r}" for r in range(self.rails)]
            lines += [f"link add front type veth peer name h{host} netns {fabric}", "link set lo up"]
            lines += [f"addr add 10.200.0.{host + 1}/24 dev front", "link set front up"]
            lines += [f"link set r{r} up" for r in range(self.rails)]
            self.batch(name, "ip", [*lines, "route add default dev front"])
            ends = [f"link set h{host}r{r} master br{r} up" for r in range(self.rails)]
            self.batch(fabric, "ip", [*ends, f"link set h{host} master front up"])
            tbf = f"root tbf rate {RAIL_BITS_PER_S} burst 128k limit 1m"
            self.batch(name, "tc", [f"qdisc add dev r{r} {tbf}" for r in range(self.rails)])
            self.batch(fabric, "tc", [f"qdisc add dev h{host}r{r} {tbf}" for r in range(self.rails)])
            self.hold(host)
        agent = self.folder / "agent"
        agent.write_text(
            f'#!/bin/sh\npid=$(cat {self.folder}/"$1".pid)\nshift\nexec nsenter -t "$pid" -m -u -n -r -- sh -c "$*"\n'
        )
        agent.chmod(0o755)

    def hold(self, host: int) -> None:
        """Give a host its name and its files below /sys and /etc, in namespaces that one sleeping process keeps open."""
        hcas = " ".join(f"mlx5_{r}:r{r}" for r in range(self.rails))
        names = "\\n".join(f"10.200.0.{h + 1} h{h}" for h in range(self.hosts))
        script = f"""set -e
            mount --make-rprivate /; hostname h{host}
            mkdir -p {self.folder}/etc{host}; mount -t tmpfs none /sys/class; mkdir /sys/class/infiniband
            for pair in {hcas}; do d=/sys/class/infiniband/${{pair%:*}}
                mkdir -p $d/device/net/${{pair#*:}} $d/ports/1; echo '4: ACTIVE' > $d/ports/1/state
                v=/sys/class/infiniband_verbs/uverbs${{pair#*:r}}; mkdir -p $v; echo ${{pair%:*}} > $v/ibdev; done
            cp -r /etc/. {self.folder}/etc{host}/ 2>/dev/null || true
            cd {self.folder}/etc{host}; mkdir -p rehearsal; echo {SCALE} > rehearsal/scale
            for i in 0 1 2 3 4 5 6 7; do echo "$i 0000:0$i:00 NVIDIA A100-SXM4-40GB"; done > rehearsal/gpus
            printf '127.0.0.1 localhost\\n{names}\\n' > hosts; : > resolv.conf
            mount --bind . /etc; echo $$ > {self.folder}/h{host}.pid; exec sleep 3600"""
        argv = ["nsenter", f"--net=/run/netns/{self.netns(host)}", "unshare", "-m", "-u", "sh", "-c", script]
        self.holders.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL))
        pid = self.folder / f"h{host}.pid"
        wait_until(lambda: pid.is_file() and pid.read_text(), f"h{host} is up")

    def perf(
        self,
        binary: Path,
        *flags: str,
        env: dict[str, str] | None = None,
        ranks: int = 0,
        mpi: tuple[str, ...] = (),
        timeout_s: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run the program on every host with mpirun, started on h0."""
        hostfile = self.folder / "hostfile"
        hostfile.write_text("".join(f"h{h} slots={ranks or self.ranks}\n" for h in range(self.hosts)))
        mca = {
            "plm_rsh_agent": str(self.folder / "agent"), "plm_rsh_no_tree_spawn": "1", "pml": "ob1",
            "btl": "self,tcp", "coll": "basic,libnbc,self", "osc": "sm",
            "btl_tcp_if_include": "front", "oob_tcp_if_include": "front",
        }  # fmt: skip
        settings = {"NCCL_IB_HCA": "mlx5_", **(env or {})}
        argv = [str(self.folder / "agent"), "h0", "cd /;", "timeout", str(timeout_s), "mpirun", "--allow-run-as-root"]
        argv += [word for key, value in mca.items() for word in ("--mca", key, value)]
        argv += ["--bind-to", "none", "--hostfile", str(hostfile), "-np", str(self.hosts * (ranks or self.ranks))]
        argv += [word for key, value in settings.items() for word in ("-x", f"'{key}={value}'")]
        argv += mpi
        return run(*argv, str(binary), *flags, timeout_s=timeout_s + 20)

    def rail_bytes(self) -> list[int]:
        """Return the bytes sent on every rail of every host."""
        sent = []
        for host in range(self.hosts):
            links = json.loads(self.ip(f"-n {self.netns(host)} -s -j link show type veth"))
            rails = [link for link in links if re.fullmatch(r"r\d+", link["ifname"])]
            sent += [link["stats64"]["tx"]["bytes"] for link in rails]
        return sent

    def down(self) -> None:
        for name in [self.netns(host) for host in range(self.hosts)] + [self.netns("f")]:
            for pid in run("ip", "netns", "pids", name).stdout.split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
            run("ip", "netns", "del", name)
        for holder in self.holders:
            holder.wait(timeout=10)


@contextlib.contextmanager
def bench(hosts: int, ranks: int, rails: int) -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="bench") as folder:
        made = Bench(Path(folder), hosts, ranks, rails)
        try:
            made.up()
            yield made
        finally:
            made.down()


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[Bench]:
    with bench(hosts=2, ranks=4, rails=4) as made:
        yield made


@pytest.fixture(scope="module")
def three_hosts() -> Iterator[Bench]:
    with bench(hosts=3, ranks=3, rails=2) as made:
        yield made


def rows(transcript: str) -> list[list[str]]:
    return [line.split() for line in transcript.splitlines() if re.match(r"\s+\d+\s+\d+\s+float", line)]


def ceiling_gb_s(rails: int) -> float:
    return rails * RAIL_BITS_PER_S / 8e9


def bus_fractions(transcript: str, ranks: int, rails: int) -> dict[int, tuple[float, float]]:
    """Return, for each size, busbw divided by the ceiling: first out of place, then in place.

    Busbw is computed from the times, because the busbw columns have only two decimals.
    """
    fractions = {}
    for row in rows(transcript):
        moved = 2 * (ranks - 1) / ranks * int(row[0]) / 1e3  # kB; divided by microseconds, it gives GB/s
        fractions[int(row[0])] = tuple(moved / float(row[at]) / ceiling_gb_s(rails) for at in (5, 9))
    return fractions  # type: ignore[return-value]


@needs_build_tools
def test_a_build_without_nvcc_fails_like_a_build_of_genuine_nccl_tests(tmp_path: Path) -> None:
    made = make(tmp_path, "CUDA_HOME=/nowhere")
    assert made.returncode != 0
    assert "/nowhere/bin/nvcc: not found" in made.stderr


@needs_build_tools
@pytest.mark.skipif(Path("/usr/include/nccl.h").exists(), reason="NCCL is installed here")
def test_the_error_of_a_build_without_nccl_headers_mentions_nccl_h(tmp_path: Path) -> None:
    made = make(tmp_path, "NCCL_HOME=/nowhere")
    assert made.returncode != 0
    assert "nccl.h: No such file or directory" in made.stderr


@needs_build_tools
@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["-G", "1"], "-G 1 is refused: a CUDA graph needs a GPU."),
        (["-t", "2"], "-t 2 is refused: one rank here is one process with one thread."),
        (["--ngpus", "8"], "-g 8 is refused: one rank here is one process with one device."),
        (["-o", "prod"], "-o prod is refused: only sum is carried out on TCP rails."),
        (["-d", "half"], "-d half is refused: only float is carried out on TCP rails."),
        (["-D", "1"], "-D 1 is refused: a device implementation needs a GPU."),
        (["-b", "8X"], "invalid size specified for 'minbytes'"),
        (["-b", "2M", "-e", "1M"], "invalid sizes for 'minbytes' and 'maxbytes': 2097152 > 1048576"),
    ],
)
def test_invalid_options_and_options_without_an_effect_on_tcp_rails_are_refused_in_one_sentence(
    without_mpi: Path, flags: list[str], sentence: str
) -> None:
    refused = run(str(without_mpi), *flags)
    assert refused.returncode == 255
    assert sentence in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert refused.stdout == ""


@needs_build_tools
def test_help_lists_every_option_of_nccl_tests(without_mpi: Path) -> None:
    helped = run(str(without_mpi), "-h")
    assert helped.returncode == 0
    options = re.findall(r"\[-(\w),--(\w+)", helped.stdout)
    assert "".join(short for short, _ in options) == "tgbeifnmwNpcodrzyTGCSJaRxDVMuIKh"


@needs_build_tools
@pytest.mark.skipif(Path("/etc/rehearsal/gpus").exists(), reason="this is a rehearsed host with GPUs")
def test_a_host_without_gpus_fails_with_cudas_message(without_mpi: Path) -> None:
    failed = run(str(without_mpi))
    assert failed.returncode == 2
    assert "Test CUDA failure" in failed.stdout
    assert "'no CUDA-capable device is detected'" in failed.stdout


@pytest.mark.rehearsal
@needs_build_tools
def test_the_transcript_has_the_layout_of_genuine_nccl_tests(two_hosts: Bench, with_mpi: Path) -> None:
    done = two_hosts.perf(with_mpi, "-b", "8", "-e", "1K", "-f", "2", "-n", "2", "-J", f"{two_hosts.folder}/r.json")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    sizes = "minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: 2 agg iters: 1 validation: 1"
    assert lines[:6] == [
        f"# Writing JSON output to {two_hosts.folder}/r.json",
        "# busbar rehearsal: all_reduce over TCP rails of this host, line rates scaled by 1/4000",
        "# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809",
        "# Collective test starting: all_reduce_perf",
        f"# nThread 1 nGpus 1 {sizes} graph: 0 unalign: 0",
        "#",
    ]
    devices = [line for line in lines if line.startswith("#  Rank")]
    assert len(devices) == 8
    assert re.fullmatch(r"#  Rank  5 Group  0 Pid +\d+ on +h1 device  1 \[0000:01:00\] NVIDIA A100-SXM4-40GB", devices[5])
    at = lines.index("# busbar rehearsal: NET/IB rails=4")
    genuine = (GOLDEN / "h200x2.txt").read_text().splitlines()
    header = next(i for i, line in enumerate(genuine) if "out-of-place" in line)
    assert lines[at + 1 : at + 5] == genuine[header - 1 : header + 3]
    columns = [match.span() for match in re.finditer(r"\S+", genuine[header + 3])]
    mine = next(line for line in lines if re.match(r"\s+8\s+2\s+float", line))
    assert [match.end() for match in re.finditer(r"\S+", mine)] == [end for _, end in columns]
    assert len(rows(done.stdout)) == 8
    assert all(len(row) == 13 and row[8] == row[12] == "0" for row in rows(done.stdout))
    end = lines.index("# Out of bounds values : 0 OK")
    assert re.fullmatch(r"# busbar rehearsal: waited for processors [01]\.\d{4} of the time", lines[end - 1])
    tail = lines[end:]
    assert re.fullmatch(r"# Avg bus bandwidth    : [\d.e-]+ ", tail[1])
    assert tail[2:] == ["#", "# Collective test concluded: all_reduce_perf", "#", ""]


@pytest.mark.rehearsal
@needs_build_tools
def test_the_json_file_has_the_keys_of_nccl_tests_and_says_that_the_run_is_a_rehearsal(
    two_hosts: Bench, with_mpi: Path
) -> None:
    path = two_hosts.folder / "keys.json"
    done = two_hosts.perf(with_mpi, "-b", "1K", "-e", "1K", "-n", "3", "-I", "1", "-K", "1", "-J", str(path))
    assert done.returncode == 0, done.stdout + done.stderr
    read = json.loads(path.read_text())
    assert read["rehearsal"]["scale"] == 4000
    assert read["version"] == 3
    assert read["nccl_version"] == 22809
    assert [device["hostname"] for device in read["config"]["devices"]] == ["h0"] * 4 + ["h1"] * 4
    (result,) = read["results"]
    assert result["size"] == 1024
    assert result["root"] == "    -1"
    assert set(result["in_place"]) == {"time", "alg_bw", "bus_bw", "nwrong"}
    assert len(result["out_of_place_per_iter"]["times_us"]) == 3
    assert len(result["out_of_place_per_iter"]["per_process_max_times_us"]) == 8
    assert read["out_of_bounds"] == {"count": 0, "okay": "true"}
    assert read["average_bus_bandwidth"]["okay"] == "unchecked"
    second = two_hosts.perf(with_mpi, "-b", "8", "-e", "8", "-n", "1", "-J", str(path))
    assert f"# Writing JSON output to {path}.0\n" in second.stdout


@pytest.mark.rehearsal
@needs_build_tools
def test_the_ring_fills_the_rails_and_sends_as_many_bytes_as_the_formula_of_an_all_reduce_says(
    two_hosts: Bench, with_mpi: Path
) -> None:
    """One of up to three runs has to fill the rails, because other programs may use the processors.

    The bytes that all runs together send must match the formula.
    """
    before, runs = two_hosts.rail_bytes(), []
    while len(runs) < 3 and not (runs and min(runs[-1]) >= 0.9):
        done = two_hosts.perf(with_mpi, "-b", "16M", "-e", "16M", "-n", "1", "-w", "0", "-c", "0")
        assert done.returncode == 0, done.stdout + done.stderr
        runs.append(bus_fractions(done.stdout, ranks=8, rails=4)[16 << 20])
    assert min(runs[-1]) >= 0.9, runs
    assert max(map(max, runs)) <= 1.03, runs
    operations = 4 * len(runs)  # in each run, one untimed and one timed operation, out of place and in place
    formula = operations * 2 * 7 / 8 * (16 << 20) / 4
    sent = [after - start for after, start in zip(two_hosts.rail_bytes(), before, strict=True)]
    assert all(-0.005 <= one / formula - 1 <= 0.015 for one in sent), (sent, formula)


@pytest.mark.rehearsal
@needs_build_tools
def test_a_rail_at_half_rate_halves_the_rings_bandwidth_and_is_busy_longest(two_hosts: Bench, with_mpi: Path) -> None:
    """One of up to three runs has to reach half the bandwidth, because other programs may use the processors."""
    two_hosts.rail_rate(1, 3, RAIL_BITS_PER_S // 2)
    runs = list[tuple[float, float]]()
    try:
        while len(runs) < 3 and not (runs and min(runs[-1]) >= 0.45):
            done = two_hosts.perf(with_mpi, "-b", "2M", "-e", "2M", "-n", "2", "-w", "0", env={"NCCL_DEBUG": "INFO"})
            assert done.returncode == 0, done.stdout + done.stderr
            runs.append(bus_fractions(done.stdout, ranks=8, rails=4)[2 << 20])
    finally:
        two_hosts.rail_rate(1, 3, RAIL_BITS_PER_S)
    assert min(runs[-1]) >= 0.45, runs
    assert max(map(max, runs)) <= 0.6, runs
    busy = re.findall(r"^# channel (\d+) rail (\S+) peer (\S+) ([\d.]+) s", done.stdout, re.MULTILINE)
    assert len(busy) == 8
    by_time = sorted(busy, key=lambda one: float(one[3]), reverse=True)
    assert {(rail, peer) for _, rail, peer, _ in by_time[:2]} == {("r3", "h0"), ("r3", "h1")}
    assert float(by_time[1][3]) > 1.5 * float(by_time[2][3])


@pytest.mark.rehearsal
@needs_build_tools
def test_a_rail_that_cannot_be_reached_is_named_with_the_addresses_of_both_ends(two_hosts: Bench, with_mpi: Path) -> None:
    two_hosts.ip(f"netns exec {two_hosts.netns('f')} ip link set h1r2 nomaster")
    try:
        done = two_hosts.perf(with_mpi, "-b", "8", "-e", "8", env={"BUSBAR_RING_CONNECT_S": "2"})
    finally:
        two_hosts.ip(f"netns exec {two_hosts.netns('f')} ip link set h1r2 master br2")
    assert done.returncode != 0
    assert (
        "channel 2: rail mlx5_2 (r2) of h0, 10.2.0.1, cannot reach h1, 10.2.0.2, within 2 s" in done.stdout
        or "channel 2: rail mlx5_2 (r2) of h1, 10.2.0.2, cannot reach h0, 10.2.0.1, within 2 s" in done.stdout
    ), done.stdout
    assert rows(done.stdout) == []


@pytest.mark.rehearsal
@needs_build_tools
def test_a_rail_that_dies_in_the_middle_of_a_run_ends_the_run_and_is_named(two_hosts: Bench, with_mpi: Path) -> None:
    inside = f"ip netns exec {two_hosts.netns('f')}"
    # The rail is cut after it has carried half a megabyte, however long the run takes to start.
    carried = f"$({inside} cat /sys/class/net/h1r1/statistics/rx_bytes)"
    waited = f"for _ in $(seq 300); do [ $(({carried} - before)) -gt 500000 ] && break; sleep 0.05; done"
    cut = f"before={carried}; {waited}; {inside} ip link set h1r1 nomaster"
    with subprocess.Popen(["/bin/sh", "-c", cut]) as cutter:
        try:
            done = two_hosts.perf(with_mpi, "-b", "8M", "-e", "8M", "-n", "50", env={"BUSBAR_RING_STALL_S": "2"})
        finally:
            cutter.wait(timeout=60)
            two_hosts.ip(f"netns exec {two_hosts.netns('f')} ip link set h1r1 master br1")
    assert done.returncode != 0
    assert re.search(
        r"channel 1: rail mlx5_1 \(r1\) from h\d, [\d.]+, to h\d, [\d.]+: nothing was acknowledged for 2 s", done.stdout
    ), done.stdout


@pytest.mark.rehearsal
@needs_build_tools
def test_a_variable_sets_how_long_a_rank_waits_for_the_other_ranks_of_its_host(two_hosts: Bench, with_mpi: Path) -> None:
    two_hosts.rail_rate(1, 1, RAIL_BITS_PER_S // 100)
    try:
        done = two_hosts.perf(with_mpi, "-b", "8M", "-e", "8M", "-n", "1", env={"BUSBAR_RING_EXCHANGE_S": "2"})
    finally:
        two_hosts.rail_rate(1, 1, RAIL_BITS_PER_S)
    assert done.returncode != 0
    assert "a rank of this host did not answer within 2 s" in done.stdout, done.stdout


@pytest.mark.rehearsal
@needs_build_tools
@pytest.mark.parametrize(
    ("selection", "says"),
    [
        ({"NCCL_IB_HCA": "=mlx5_0,mlx5_2"}, "NET/IB rails=2"),
        ({"NCCL_IB_HCA": "^mlx5_3"}, "NET/IB rails=3"),
        ({"NCCL_IB_HCA": "=mlx5"}, "NET/Socket"),
        ({"NCCL_IB_DISABLE": "1"}, "NET/Socket"),
    ],
)
def test_rails_are_selected_with_the_syntax_of_nccl_ib_hca(
    two_hosts: Bench, with_mpi: Path, selection: dict[str, str], says: str
) -> None:
    done = two_hosts.perf(with_mpi, "-b", "4K", "-e", "4K", "-n", "1", env=selection, ranks=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"# busbar rehearsal: {says}\n" in done.stdout
    assert rows(done.stdout)[0][8] == "0"


@pytest.mark.rehearsal
@needs_build_tools
def test_a_rail_that_is_down_is_left_out(two_hosts: Bench, with_mpi: Path) -> None:
    state = (
        f"nsenter -t $(cat {two_hosts.folder}/h1.pid) -m -r sh -c 'echo \"$1\" > /sys/class/infiniband/mlx5_0/ports/1/state'"
    )
    subprocess.run(["/bin/sh", "-c", state.replace("$1", "1: DOWN")], check=True, timeout=10)
    try:
        done = two_hosts.perf(with_mpi, "-b", "4K", "-e", "4K", "-n", "1", ranks=2)
    finally:
        subprocess.run(["/bin/sh", "-c", state.replace("$1", "4: ACTIVE")], check=True, timeout=10)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# busbar rehearsal: NET/IB rails=3\n" in done.stdout
    assert "rails left out, because some host has no active port with an address there: 1\n" in done.stdout


@pytest.mark.rehearsal
@needs_build_tools
def test_a_build_without_mpi_makes_every_process_a_job_of_one_rank(two_hosts: Bench, without_mpi: Path) -> None:
    done = two_hosts.perf(without_mpi, "-b", "1M", "-e", "1M", "-n", "1", ranks=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("# Collective test starting: all_reduce_perf") == 2
    assert [row[7] for row in rows(done.stdout)] == ["0.00", "0.00"]


@pytest.mark.rehearsal
@needs_build_tools
def test_a_measurement_fails_when_its_timeout_is_over(two_hosts: Bench, with_mpi: Path) -> None:
    done = two_hosts.perf(with_mpi, "-b", "8M", "-e", "8M", "-n", "50", "-T", "1", ranks=1)
    assert done.returncode != 0
    assert "Test timeout (1s)" in done.stdout


@pytest.mark.rehearsal
@needs_build_tools
def test_ranks_that_alternate_between_hosts_still_form_one_ring(two_hosts: Bench, with_mpi: Path) -> None:
    """The ring sorts the ranks by host, so each rail carries as many bytes as if the ranks did not alternate."""
    before = two_hosts.rail_bytes()
    done = two_hosts.perf(with_mpi, "-b", "4M", "-e", "4M", "-n", "1", "-w", "0", "-c", "0", mpi=("--map-by", "node"), ranks=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[8] for line in done.stdout.splitlines() if line.startswith("#  Rank")] == ["h0", "h1"] * 2
    formula = 4 * 2 * 3 / 4 * (4 << 20) / 4
    sent = [after - start for after, start in zip(two_hosts.rail_bytes(), before, strict=True)]
    assert all(-0.01 <= one / formula - 1 <= 0.03 for one in sent), (sent, formula)


@dataclass(frozen=True)
class Genuine:
    """One program of nccl-tests 2.19.6, as its source defines it.

    Attributes:
        divided: whether a message is divided into one share for each rank, a multiple of 16 bytes.
        redop: the value in the column redop.
        root: the value in the column root.
        in_place: whether the program checks its results in place.
        algorithm: takes the value in the column `size` and the number of ranks; returns the number of bytes from which algbw is
            computed (algbw is this number divided by the time).
        factor: takes the number of ranks; returns busbw divided by algbw.
        wire: takes the number of all ranks and the number of ranks on one host; returns the highest possible busbw divided by
            the rate of one host's rails.
    """

    divided: bool
    redop: str
    root: str
    in_place: bool
    algorithm: Callable[[float, int], float]
    factor: Callable[[int], float]
    wire: Callable[[int, int], float]


def size_alone(size: float, _ranks: int) -> float:
    return size


def but_one_share(size: float, ranks: int) -> float:
    return size * (ranks - 1) / ranks


def others(ranks: int) -> float:
    return (ranks - 1) / ranks


def full(_ranks: int, _local: int) -> float:
    return 1.0


def all_pairs(ranks: int, local: int) -> float:
    return (ranks - 1) / (local * (ranks - local))


def one_root(ranks: int, local: int) -> float:
    return (ranks - 1) / (ranks - local)


TESTS = {
    "all_reduce": Genuine(False, "sum", "-1", True, size_alone, lambda n: 2 * others(n), full),
    "all_gather": Genuine(True, "none", "-1", True, size_alone, others, full),
    "reduce_scatter": Genuine(True, "sum", "-1", True, size_alone, others, full),
    "broadcast": Genuine(False, "none", "0", True, size_alone, lambda _: 1, full),
    "reduce": Genuine(False, "sum", "0", True, size_alone, lambda _: 1, full),
    "alltoall": Genuine(True, "none", "-1", False, size_alone, others, all_pairs),
    "gather": Genuine(True, "none", "0", True, size_alone, others, one_root),
    "scatter": Genuine(True, "none", "0", True, size_alone, others, one_root),
    "sendrecv": Genuine(False, "sum", "-1", False, size_alone, lambda _: 1, full),
    "hypercube": Genuine(True, "", "-1", True, but_one_share, lambda _: 1, all_pairs),
}


LOOKS = 4  # a test measures again if a busy machine has changed the result, but at most this many times


def reached_of_wire(row: dict[str, Any], expected: Genuine, ranks: int) -> float:
    """Return the higher of a row's two busbw (out of place, in place), divided by the highest busbw that four rails allow."""
    best = max(row[place]["bus_bw"] for place in ("out_of_place", "in_place"))
    return best / (ceiling_gb_s(4) * expected.wire(ranks, 4))


def program(with_mpi: Path, name: str) -> Path:
    return with_mpi.with_name(f"{name}_perf")


@needs_build_tools
def test_all_programs_of_nccl_tests_are_the_same_binary(with_mpi: Path) -> None:
    names = {path.name for path in with_mpi.parent.glob("*_perf")}
    assert names == {f"{name}_perf" for name in (*TESTS, "alltoallv")}
    assert len({(with_mpi.parent / name).read_bytes() for name in names}) == 1


@needs_build_tools
def test_a_program_name_unknown_to_nccl_tests_is_refused(without_mpi: Path, tmp_path: Path) -> None:
    shutil.copy(without_mpi, tmp_path / "no_such_perf")
    refused = run(str(tmp_path / "no_such_perf"))
    assert refused.returncode == 255
    assert "no_such_perf: there is no such test" in refused.stderr


@pytest.mark.rehearsal
@needs_build_tools
@pytest.mark.parametrize("name", TESTS)
def test_every_collective_reaches_the_line_rate_and_its_rows_follow_nccl_tests(
    two_hosts: Bench, with_mpi: Path, name: str
) -> None:
    expected, ranks = TESTS[name], 8
    path = two_hosts.folder / f"{name}.json"
    flags = ("-b", "40", "-e", "4M", "-f", "104857", "-n", "4", "-w", "1", "-J", str(path))  # 40 B, and 24 B less than 4 MiB
    done = two_hosts.perf(program(with_mpi, name), *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"# busbar rehearsal: {name} over TCP rails of this host, line rates scaled by 1/4000\n" in done.stdout
    small, large = json.loads(path.read_text())["results"]
    for row, asked in ((small, 40), (large, 40 * 104857)):
        share = asked // 4 // ranks // 4 * 4  # floats in the share of one rank, which is a multiple of 16 bytes
        assert row["count"] == (share if expected.divided else asked // 4)
        assert row["size"] == (share * ranks * 4 if expected.divided else asked // 4 * 4)
        assert (row["redop"], row["root"].strip()) == (expected.redop, expected.root)
        assert row["out_of_place"]["nwrong"] == 0
        assert row["in_place"]["nwrong"] == (0 if expected.in_place else None)
        for place in ("out_of_place", "in_place"):
            found = row[place]
            algbw = expected.algorithm(row["size"], ranks) / found["time"] / 1e3
            # Numbers in the file have six decimals.
            assert found["alg_bw"] == pytest.approx(algbw, abs=2e-6, rel=1e-4)
            assert found["bus_bw"] == pytest.approx(algbw * expected.factor(ranks), abs=2e-6, rel=1e-4)
    # A busy machine slows a run, and ranks that start late shorten the mean of its times. In both cases the run is repeated.
    looks = [reached_of_wire(large, expected, ranks)]
    while len(looks) < LOOKS and not 0.9 <= looks[-1] <= 1.1:
        path.unlink()  # nccl-tests leaves an existing file as it is, and writes another one
        assert two_hosts.perf(program(with_mpi, name), *flags).returncode == 0
        looks.append(reached_of_wire(json.loads(path.read_text())["results"][1], expected, ranks))
    assert 0.9 <= looks[-1] <= 1.1, looks
    cells = next(line for line in done.stdout.splitlines() if re.match(rf"\s+{large['size']}\s", line))
    assert cells.rstrip().endswith("N/A") != expected.in_place


@pytest.mark.rehearsal
@needs_build_tools
@pytest.mark.parametrize("name", [*TESTS, "alltoallv"])
def test_every_value_is_right_on_three_hosts_with_three_ranks_each_at_odd_sizes(
    three_hosts: Bench, with_mpi: Path, name: str
) -> None:
    done = three_hosts.perf(program(with_mpi, name), "-b", "4", "-e", "300K", "-f", "17", "-n", "2", "-c", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# Out of bounds values : 0 OK" in done.stdout
    if name == "hypercube":
        assert done.stdout.count("nRanks 9 is not a power of 2, skipping") == 9
        assert rows(done.stdout) == []
    else:
        assert len(rows(done.stdout)) == 4


@pytest.mark.rehearsal
@needs_build_tools
@pytest.mark.parametrize("name", ["broadcast", "reduce", "gather", "scatter"])
def test_any_rank_can_be_the_root_but_a_root_that_is_no_rank_is_refused(three_hosts: Bench, with_mpi: Path, name: str) -> None:
    done = three_hosts.perf(program(with_mpi, name), "-b", "64K", "-e", "64K", "-n", "1", "-w", "0", "-r", "-1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row[4] for row in rows(done.stdout)] == [str(root) for root in range(9)]
    assert "# Out of bounds values : 0 OK" in done.stdout
    refused = three_hosts.perf(program(with_mpi, name), "-b", "64", "-e", "64", "-r", "9")
    assert refused.returncode != 0
    assert "invalid root 9 (root should be in the 0..8 range)" in refused.stdout


@pytest.mark.rehearsal
@needs_build_tools
@pytest.mark.parametrize(
    ("split", "colors"),
    [
        ({"NCCL_TESTS_SPLIT": "AND 0x3"}, [0, 1, 2, 3, 0, 1, 2, 3]),
        ({"NCCL_TESTS_SPLIT": "&0b11"}, [0, 1, 2, 3, 0, 1, 2, 3]),
        ({"NCCL_TESTS_SPLIT": "or 3"}, [3, 3, 3, 3, 7, 7, 7, 7]),
        ({"NCCL_TESTS_SPLIT": "MOD 3"}, [0, 1, 2, 0, 1, 2, 0, 1]),
        ({"NCCL_TESTS_SPLIT": "%4"}, [0, 1, 2, 3, 0, 1, 2, 3]),
        ({"NCCL_TESTS_SPLIT": "DIV 4"}, [0, 0, 0, 0, 1, 1, 1, 1]),
        ({"NCCL_TESTS_SPLIT": "nonsense"}, [0] * 8),
        ({"NCCL_TESTS_SPLIT_MASK": "3", "NCCL_TESTS_SPLIT": "DIV 4"}, [0, 1, 2, 3, 0, 1, 2, 3]),
    ],
)
def test_a_split_makes_groups_that_run_at_the_same_time(
    two_hosts: Bench, with_mpi: Path, split: dict[str, str], colors: list[int]
) -> None:
    path = two_hosts.folder / "split.json"
    path.unlink(missing_ok=True)  # nccl-tests leaves an existing file as it is, and writes another one
    done = two_hosts.perf(with_mpi, "-b", "64K", "-e", "64K", "-n", "2", "-J", str(path), env=split)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [int(found) for found in re.findall(r"^#  Rank +\d+ Group +(\d+)", done.stdout, re.MULTILINE)] == colors
    (row,) = rows(done.stdout)
    assert (row[8], row[12]) == ("0", "0")
    ranks = colors.count(colors[0])
    found = json.loads(path.read_text())["results"][0]["out_of_place"]
    assert found["bus_bw"] == pytest.approx(2 * (ranks - 1) / ranks * found["alg_bw"], abs=2e-6, rel=1e-4)


@pytest.mark.rehearsal
@needs_build_tools
def test_a_split_by_zero_is_refused(two_hosts: Bench, with_mpi: Path) -> None:
    refused = two_hosts.perf(with_mpi, "-b", "8", "-e", "8", env={"NCCL_TESTS_SPLIT": "MOD 0"}, ranks=1)
    assert refused.returncode != 0
    assert "NCCL_TESTS_SPLIT MOD 0 is refused: ranks cannot be divided by 0." in refused.stderr


@pytest.mark.rehearsal
@needs_build_tools
def test_in_a_split_by_rails_each_group_uses_its_own_rail_and_a_slow_rail_lengthens_the_times(
    two_hosts: Bench, with_mpi: Path
) -> None:
    """All groups run at the same time, each on one of four rails.

    Option -a selects the printed time: rank 0's, or the mean, the minimum or the maximum over the ranks of all groups.
    """
    env = {"NCCL_TESTS_SPLIT": "AND 0x3"}
    full_us = (1 << 20) * 8 / RAIL_BITS_PER_S * 1e6
    times, runs, before = {}, 0, two_hosts.rail_bytes()
    two_hosts.rail_rate(0, 2, RAIL_BITS_PER_S // 2)
    try:
        for average, share in (("0", 1.0), ("1", 1.25), ("2", 1.0), ("3", 2.0)):
            expected_us = pytest.approx(share * full_us, rel=0.15)
            for _ in range(LOOKS):
                flags = ("-b", "1M", "-e", "1M", "-n", "2", "-w", "0", "-c", "0", "-a", average)
                done = two_hosts.perf(with_mpi, *flags, env=env)
                assert done.returncode == 0, done.stdout + done.stderr
                assert "# busbar rehearsal: NET/IB rails=4\n" in done.stdout
                times[average], runs = float(rows(done.stdout)[0][5]), runs + 1
                if times[average] == expected_us:
                    break
            assert times[average] == expected_us, times
    finally:
        two_hosts.rail_rate(0, 2, RAIL_BITS_PER_S)
    sent = [after - start for after, start in zip(two_hosts.rail_bytes(), before, strict=True)]
    # Each run has three operations, each out of place and in place. In each operation, a group sends one message on its rail.
    formula = runs * 2 * 3 * (1 << 20)
    assert all(-0.01 <= one / formula - 1 <= 0.03 for one in sent), (sent, formula)


@pytest.mark.rehearsal
@needs_build_tools
def test_cycles_repeat_the_whole_table(two_hosts: Bench, with_mpi: Path) -> None:
    done = two_hosts.perf(with_mpi, "-b", "8", "-e", "32", "-f", "2", "-n", "1", "-N", "3", ranks=2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row[0] for row in rows(done.stdout)] == ["8", "16", "32"] * 3


@pytest.mark.rehearsal
@needs_build_tools
def test_individually_timed_operations_have_the_columns_of_nccl_tests_and_a_summary_without_skipped_operations(
    two_hosts: Bench, with_mpi: Path
) -> None:
    path = two_hosts.folder / "iterations.json"
    flags = ("-b", "8", "-e", "8", "-n", "6", "-I", "1", "-K", "2", "-J", str(path))
    done = two_hosts.perf(with_mpi, *flags, ranks=2)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    header = next(at for at, line in enumerate(lines) if "i_min" in line)
    assert lines[header - 1].split("  ")[-1].strip() == "in-place (+ per-iteration)"
    extra = ["i_min", "i_max", "i_p99", "i_cv%"]
    assert lines[header].split()[-8:] == ["time", "algbw", "busbw", "#wrong", *extra][-8:]
    assert len(rows(done.stdout)[0]) == 21
    (row,) = json.loads(path.read_text())["results"]
    for place in ("out_of_place_per_iter", "in_place_per_iter"):
        found = row[place]
        assert list(found) == [
            "skipped_iterations", "min_us", "max_us", "avg_us", "p50_us", "p95_us", "p99_us", "stdev_us", "cv_pct", "times_us",
            "per_process_max_times_us",
        ]  # fmt: skip
        counted = found["times_us"][2:]
        assert (found["skipped_iterations"], len(found["times_us"])) == (2, 6)
        assert (found["min_us"], found["max_us"], found["p99_us"]) == (min(counted), max(counted), max(counted))
        processes = found["per_process_max_times_us"]
        assert found["times_us"] == pytest.approx([max(column) for column in zip(*processes, strict=True)])


@pytest.mark.rehearsal
@needs_build_tools
@pytest.mark.parametrize("name", ["all_reduce", "alltoall", "reduce_scatter"])
def test_values_altered_on_a_rail_are_counted_as_wrong(two_hosts: Bench, with_mpi: Path, name: str) -> None:
    rule = "meta length > 1000 @th,640,32 set 0x3f9e0419"
    hook = f'type filter hook egress devices = {{ "h1r0", "h1r1" }} priority 0; policy accept; {rule}'
    nft = ("ip", "netns", "exec", two_hosts.netns("f"), "nft")
    planted = run(*nft, "-f", "-", input=f"table netdev wrong {{\nchain out {{\n{hook}\n}}\n}}\n")
    assert planted.returncode == 0, planted.stderr
    try:
        done = two_hosts.perf(program(with_mpi, name), "-b", "1M", "-e", "1M", "-n", "1", "-w", "0")
    finally:
        run(*nft, "delete", "table", "netdev", "wrong")
    assert done.returncode != 0
    assert int(float(rows(done.stdout)[0][8])) > 0
    assert re.search(r"# Out of bounds values : \d+ FAILED", done.stdout)


@pytest.mark.rehearsal
@needs_build_tools
def test_every_rank_has_its_own_file_with_nccls_lines_about_the_connections_of_the_rank(
    two_hosts: Bench, with_mpi: Path
) -> None:
    folder = two_hosts.folder / "logs"
    folder.mkdir()
    env = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET", "NCCL_DEBUG_FILE": f"{folder}/nccl.%h.%p"}
    done = two_hosts.perf(with_mpi, "-b", "8", "-e", "8", "-n", "1", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NCCL INFO" not in done.stdout
    assert "# channel 0 rail r0 peer h1" in done.stdout
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert sorted(name.split(".")[1] for name in texts) == ["h0"] * 4 + ["h1"] * 4
    for name, text in texts.items():
        _, host, pid = name.split(".")
        assert all(re.match(rf"{host}:{pid}:{pid} \[\d\] NCCL INFO \S", line) for line in text.splitlines())
        assert text.count("NCCL INFO Using network IB\n") == 1
        assert "NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE" in text
        assert "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'" in text, "no module is loaded on these hosts"
        assert "GDRDMA" not in text
    whole = "".join(texts.values())
    crossing = re.findall(r"Channel (\d\d)/0 : (\d)\[\d\] -> (\d)\[\d\] \[send\] via NET/IB/(\d)", whole)
    assert sorted(crossing) == sorted(
        (f"0{rail}", str(here), str(there), str(rail))
        for rail in range(4)
        for here, there in ((rail, rail + 4), (rail + 4, rail))
    )
    assert "Channel 02 : 3[3] -> 2[2] via SHM/direct/direct" in whole


@pytest.mark.rehearsal
@needs_build_tools
def test_nccl_tests_device_sets_the_device_of_both_ranks_in_the_log_line_of_a_connection(
    two_hosts: Bench, with_mpi: Path
) -> None:
    env = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "NET", "NCCL_TESTS_DEVICE": "2"}
    done = two_hosts.perf(with_mpi, "-b", "8", "-e", "8", "-n", "1", env=env, ranks=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(re.findall(r"Channel \d\d/0 : (\S+) -> (\S+) \[send\]", done.stdout)) == {("0[2]", "1[2]"), ("1[2]", "0[2]")}


@pytest.mark.rehearsal
@needs_build_tools
def test_without_nccl_debug_file_the_lines_selected_by_nccl_debug_go_to_stdout(two_hosts: Bench, with_mpi: Path) -> None:
    env = {"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "1"}
    done = two_hosts.perf(with_mpi, "-b", "8", "-e", "8", "-n", "1", env=env, ranks=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("NCCL INFO Using network Socket\n") == 2
    assert "NCCL INFO NET/Socket : Using [0]front:10.200.0.1<0>\n" in done.stdout
    assert "[send] via NET/Socket/0\n" in done.stdout
    silent = two_hosts.perf(with_mpi, "-b", "8", "-e", "8", "-n", "1", env=env | {"NCCL_DEBUG_SUBSYS": "^ALL"}, ranks=1)
    assert "NCCL INFO" not in silent.stdout


@pytest.mark.rehearsal
@needs_build_tools
def test_devices_without_verbs_are_not_used_as_rails(two_hosts: Bench, with_mpi: Path) -> None:
    moved = f"nsenter -t $(cat {two_hosts.folder}/h1.pid) -m -r sh -c 'cd /sys/class && mv $1 $2'"
    there, away = "infiniband_verbs", "unloaded"
    subprocess.run(["/bin/sh", "-c", moved.replace("$1", there).replace("$2", away)], check=True, timeout=10)
    try:
        done = two_hosts.perf(with_mpi, "-b", "4K", "-e", "4K", "-n", "1", ranks=2, env={"NCCL_DEBUG": "INFO"})
    finally:
        subprocess.run(["/bin/sh", "-c", moved.replace("$1", away).replace("$2", there)], check=True, timeout=10)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# busbar rehearsal: NET/Socket\n" in done.stdout
    assert "h1" in next(line for line in done.stdout.splitlines() if "NET/IB : No device found." in line)
