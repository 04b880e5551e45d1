"""Turn a fresh set of namespaces into a rehearsed host, then become its first process.

hosts.boot starts this program (standard library only) as the first process of new mount, pid, UTS, IPC and time
namespaces: `host_init.py HOST_FOLDER`. All mounts are inside the host's mount namespace, so no mount outlives the host.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import shutil
import socket
import stat
import sys
from pathlib import Path
from typing import Any

#: Top-level folders of the machine that a host sees: programs and libraries only.
KEPT_TOP = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

#: Top-level folders that the host has for itself, empty at first. Folders that are in neither list are hidden from the host.
FRESH_TOP = ("boot", "dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var")

#: What a host sees of the machine's /etc: an allow list, because the rest may contain secrets.
KEPT_ETC = [
    "alternatives", "bash.bashrc", "adduser.conf", "ca-certificates", "cloud/templates", "cloud/cloud.cfg.d",
    "debian_version", "default", "deluser.conf", "gai.conf", "group", "gshadow", "host.conf", "inputrc",
    "iproute2", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "libaudit.conf", "locale.alias", "login.defs",
    "magic", "mime.types", "mke2fs.conf", "networks", "openmpi", "pam.conf", "pam.d", "passwd", "perl",
    "protocols", "python3", "python3.11", "rpc", "security", "selinux", "services", "shells", "skel",
    "ssh/moduli", "ssl/openssl.cnf", "sudo.conf", "terminfo", "ucf.conf",
]  # fmt: skip

VAR_FOLDERS = [
    "cache", "lib/cloud", "lib/dpkg", "lib/misc", "lib/rehearsal", "lib/sudo", "local", "log", "mail", "opt",
    "spool",
]  # fmt: skip
#: Where a host sees the machine's /usr. If the host installs a package, the package's programs come from here.
MACHINE = "usr/lib/rehearsal/machine"
PROGRAMS = ("usr/lib/rehearsal/init", "usr/lib/rehearsal/counters", "usr/lib/rehearsal/supplicant")
KEPT_UIDS_BELOW = 1000
#: Major number of the device nodes for disks and GPUs. No driver serves this number, so these nodes reach no real hardware.
SAMPLE_MAJOR = 42

LIBC = ctypes.CDLL(None, use_errno=True)
#: Options of mount(8) that are flags of mount(2), with their values (linux/mount.h); other options belong to the file system.
MOUNT_FLAGS = {
    "ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8, "remount": 32, "bind": 4096, "rec": 16384, "private": 1 << 18,
}  # fmt: skip
DETACH = 2
#: System call number of pivot_root(2), by architecture; the C library has no function for it.
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def mount(kind: str, source: str, target: Path | str, options: str = "") -> None:
    """Mount a file system; `options` are written as for the command `mount`. After an error, the host does not start.

    The kernel is called directly, because starting a program for each of a host's 20 mounts takes longer than the mounts do.
    """
    flags, data = 0, []
    for option in filter(None, options.split(",")):
        flags |= MOUNT_FLAGS.get(option, 0)
        data += [option] if option not in MOUNT_FLAGS else []
    words = [os.fsencode(word) for word in (source, str(target), kind)]
    kernel("mount", LIBC.mount(*words, ctypes.c_ulong(flags), ",".join(data).encode()))


def bind(source: Path | str, target: Path | str, *, read_only: bool = False) -> None:
    """Show a file or folder at a second path, too."""
    mount("", str(source), target, "bind")
    if read_only:
        # A remount must repeat the flags that are to stay. Each of nosuid, nodev and noexec has the same value in statvfs(2)
        # and in mount(2).
        kept = [name for name in ("nosuid", "nodev", "noexec") if os.statvfs(target).f_flag & MOUNT_FLAGS[name]]
        mount("", "", target, ",".join(["remount", "ro", "bind", *kept]))


def kernel(call: str, result: int) -> None:
    """Raise the error of a system call that failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")


def opaque(folder: Path) -> Path:
    """Make a folder in the overlay's upper layer that hides the machine's folder at the same path."""
    folder.mkdir(parents=True, exist_ok=True)
    os.setxattr(folder, "trusted.overlay.opaque", b"y")
    return folder


def hide(upper: Path, path: str) -> None:
    """Hide a file of the machine from the host."""
    if os.path.lexists(f"/{path}") and not os.path.lexists(upper / path):
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        os.mknod(upper / path, stat.S_IFCHR, 0)


def clean_machine(upper: Path) -> None:
    """Hide what is specific to this machine: the host gets its own /etc and /var, and no user files."""
    for entry in Path("/").iterdir():
        if entry.name not in KEPT_TOP:
            hide(upper, entry.name)
    for name in FRESH_TOP:
        (upper / name).unlink(missing_ok=True)
        opaque(upper / name)
    for folder in ("usr/local", "usr/src", "usr/lib/systemd/system"):
        opaque(upper / folder)
    # hwloc's plugins look for displays and OpenCL devices whenever a rank starts; no vendor's image has these plugins.
    for plugins in Path("/").glob("usr/lib/*/hwloc"):
        hide(upper, str(plugins.relative_to("/")))
    for folder in ("bin", "sbin", "lib", "include", "etc", "share"):
        (upper / "usr/local" / folder).mkdir()
    clean_var(upper / "var")
    clean_etc(upper / "etc")
    for temporary in (upper / "tmp", upper / "var/tmp"):
        temporary.mkdir(exist_ok=True)
        temporary.chmod(0o1777)
    (upper / "root").chmod(0o700)


def clean_var(var: Path) -> None:
    """Make an empty /var with the folders that programs expect."""
    for name in VAR_FOLDERS:
        (var / name).mkdir(parents=True)
    (var / "run").symlink_to("/run")
    (var / "lock").symlink_to("/run/lock")


def clean_etc(etc: Path) -> None:
    """Make an /etc with what programs need from the machine's /etc, and nothing that identifies the machine."""
    for name in KEPT_ETC:
        source = Path("/etc", name)
        (etc / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, etc / name, symlinks=True)
        elif source.exists():
            shutil.copy2(source, etc / name)
    for command in (etc / "alternatives").iterdir():
        if command.name.startswith("mp"):
            command.unlink()
    system_accounts(etc)


def system_accounts(etc: Path) -> None:
    """Keep only system accounts, without passwords: the machine's users cannot log in to a host."""
    rows = [line.split(":") for line in (etc / "passwd").read_text().splitlines()]
    kept = [row for row in rows if int(row[2]) < KEPT_UIDS_BELOW or row[0] == "nobody"]
    (etc / "passwd").write_text("".join(":".join(row) + "\n" for row in kept))
    (etc / "shadow").write_text("".join(f"{row[0]}:*:19000:0:99999:7:::\n" for row in kept))
    (etc / "shadow").chmod(0o640)
    groups = [line.split(":") for line in (etc / "group").read_text().splitlines()]
    groups = [row for row in groups if int(row[2]) < KEPT_UIDS_BELOW or row[0] == "nogroup"]
    (etc / "group").write_text("".join(":".join([*row[:3], ""]) + "\n" for row in groups))
    (etc / "gshadow").write_text("".join(f"{row[0]}:*::\n" for row in groups))


def lay_image(upper: Path, plan: dict[str, Any]) -> None:
    """Add the image's own files: stand-ins, copies, texts and links, in this order."""
    image = Path(plan["image"])
    shutil.copytree(image / "system", upper / "usr/lib/rehearsal")
    shutil.copytree("/etc/ldap/schema", upper / "usr/lib/rehearsal/schema")  # slapd's schemas; tools/setup installs slapd
    modules = upper / "usr/lib/rehearsal/python/rehearsal/image"
    modules.mkdir(parents=True)
    for module in image.glob("*.py"):
        shutil.copyfile(module, modules / module.name)
    for name in ("boot", "stages", "agent", "dlami"):
        (upper / "usr/lib/rehearsal" / name).chmod(0o755)
    real = upper / "usr/lib/rehearsal/real"
    real.mkdir()
    if Path("/usr/bin/mount").exists():
        shutil.copy2("/usr/bin/mount", real / "mount")
    (upper / "usr/bin").mkdir(parents=True, exist_ok=True)
    for name, source in plan["commands"].items():
        shutil.copyfile(image / "bin" / source, upper / "usr/bin" / name)
        (upper / "usr/bin" / name).chmod(0o755)
        hide(upper, f"usr/sbin/{name}")
    for path in plan["absent"]:
        hide(upper, path)
    for path, source in plan["copies"].items():
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, upper / path)
        (upper / path).chmod(0o755 if "bin/" in path or path.startswith(PROGRAMS) else 0o644)
    for path, (text, mode) in plan["texts"].items():
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        # Content that may be binary is in base64.
        (upper / path).write_bytes(base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode())
        (upper / path).chmod(mode)
    for path, target in plan["links"].items():
        (upper / path).parent.mkdir(parents=True, exist_ok=True)
        (upper / path).symlink_to(target)


def make_devices(dev: Path, plan: dict[str, Any]) -> None:
    """Make the host's /dev, with the shape's disks and GPUs as nodes without a driver."""
    for name, minor in {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}.items():
        os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        (dev / name).chmod(0o666)
    os.mknod(dev / "tty", stat.S_IFCHR | 0o666, os.makedev(5, 0))
    (dev / "tty").chmod(0o666)
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (dev / name).symlink_to(target if target.startswith("/") else f"/proc/self/{target}")
    (dev / "pts").mkdir()
    mount("devpts", "devpts", dev / "pts", "newinstance,ptmxmode=0666,mode=0620,gid=5")
    (dev / "ptmx").symlink_to("pts/ptmx")
    (dev / "shm").mkdir()
    mount("tmpfs", "tmpfs", dev / "shm", "mode=1777,nosuid,nodev")
    for name, kind in plan["nodes"].items():
        format_ = stat.S_IFBLK | 0o660 if kind == "block" else stat.S_IFCHR | 0o666
        os.mknod(dev / name, format_, os.makedev(SAMPLE_MAJOR, len(os.listdir(dev)) % 256))  # noqa: PTH208 - a count
        (dev / name).chmod(stat.S_IMODE(format_))


def make_sys(root: Path, plan: dict[str, Any]) -> None:
    """Make a read-only /sys that shows the host's interfaces and the shape's RDMA devices."""
    system = root / "sys"
    mount("sysfs", "sysfs", system, "ro,nosuid,nodev,noexec")
    held = root / "run/net"
    held.mkdir()
    bind(system / "class/net", held)
    mount("tmpfs", "tmpfs", system / "class", "mode=755")
    (system / "class/net").mkdir()
    if plan["hidden"]:
        # A real EFA device has no interface, so the rails' interfaces must not be visible in /sys/class/net.
        for name in sorted(set(os.listdir(held)) - set(plan["hidden"])):  # noqa: PTH208 - names
            (system / "class/net" / name).symlink_to(f"../../devices/virtual/net/{name}")
    else:
        bind(held, system / "class/net")
    kernel("umount", LIBC.umount2(os.fsencode(held), 0))
    held.rmdir()
    for path, text in plan["sys_class"].items():
        file = system / "class" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            file.symlink_to(text[2:])
        else:
            file.write_text(text)


def start_counting(plan: dict[str, Any]) -> None:
    """Start the process that updates the counters of RDMA ports while the host runs."""
    if plan["counted"] and os.fork() == 0:
        found = [(str(socket.if_nametoindex(name)), f"/sys/class/{folder}", kind) for name, folder, kind in plan["counted"]]
        os.setsid()
        os.execve("/usr/lib/rehearsal/counters", ["counters", *(word for one in found for word in one)], {})  # noqa: S606


def make_proc(root: Path) -> None:
    """Make a /proc that shows the host's processes; of the kernel's settings, only the network settings can be changed."""
    proc = root / "proc"
    mount("proc", "proc", proc, "nosuid,nodev,noexec")
    bind(proc / "sys", proc / "sys", read_only=True)
    bind("/proc/sys/net", proc / "sys/net")
    scope = proc / "sys/kernel/yama/ptrace_scope"
    if scope.exists():
        # First boot may write this setting and read it back, so the host has a file in the setting's place. The machine's value
        # stays as it is.
        said = root / "run/ptrace_scope"
        said.write_text(scope.read_text())
        bind(said, scope)
    if (proc / "sysrq-trigger").exists():
        bind("/dev/null", proc / "sysrq-trigger")


def fill(upper: Path, free_bytes: int) -> None:
    """Fill the root disk with an old log until `free_bytes` are left."""
    status = os.statvfs(upper)
    with (upper / "var/log/old.log").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(0, status.f_bavail * status.f_frsize - free_bytes))


def main(folder: Path) -> None:
    """Build the host and become its first process."""
    # The old /proc still shows the machine's pid namespace, so this link names the pid that this process has on the machine.
    outer_pid = (Path("/proc/self").readlink()).name
    plan = json.loads((folder / "plan.json").read_text())
    console = os.open(folder / "console.fifo", os.O_RDWR)
    log = os.open(plan["console"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    mount("", "", "/", "rec,private")
    stage = folder / "root"
    mount("tmpfs", "tmpfs", stage, f"mode=755,size={plan['disk_bytes']}")
    upper, root = stage / "u", stage / "root"
    for made in (upper, stage / "w", root):
        made.mkdir()
    clean_machine(upper)
    lay_image(upper, plan)
    if plan["free_bytes"] is not None:
        fill(upper, plan["free_bytes"])
    # The overlay's paths are relative, so that the host's list of mounts does not show where they are on the machine.
    os.chdir(stage)
    mount("overlay", "overlay", "root", "lowerdir=/,upperdir=u,workdir=w")
    mount("tmpfs", "tmpfs", root / "dev", "mode=755,nosuid")
    mount("tmpfs", "tmpfs", root / "run", "mode=755,nosuid,nodev")
    make_devices(root / "dev", plan)
    for inside, outside in (("dev/console", folder / "console.fifo"), ("var/lib/rehearsal/calls", plan["calls"])):
        (root / inside).touch()
        bind(outside, root / inside)
    for inside, outside in {**plan["programs"], MACHINE: "/usr"}.items():
        (root / inside).mkdir(parents=True)
        bind(outside, root / inside, read_only=True)
    make_sys(root, plan)
    make_proc(root)
    Path("/proc/sys/kernel/hostname").write_text(plan["hostname"])
    os.chdir(root)
    (root / "run/old").mkdir()
    kernel("pivot_root", LIBC.syscall(PIVOT_ROOT[os.uname().machine], b".", b"run/old"))
    os.chroot(".")
    os.chdir("/")
    # The pid is written through the old root just before the old root is unmounted; from now on, the host counts as running.
    Path(f"/run/old{folder}/pid").write_text(outer_pid)
    kernel("umount", LIBC.umount2(b"/run/old", DETACH))
    Path("/run/old").rmdir()
    os.dup2(console, 13)
    os.dup2(log, 14)
    os.dup2(13, 3)
    os.dup2(14, 4)
    os.closerange(5, 64)
    start_counting(plan)
    os.execve("/usr/lib/rehearsal/init", ["init", "/usr/lib/rehearsal/boot"], plan["environment"])  # noqa: S606


if __name__ == "__main__":
    main(Path(sys.argv[1]))
