"""Downloads that run or are trusted as root: their sha256, or the fingerprint of a signing key, is compared before any use.

The functions return POSIX shell that ends the step, and with it the boot, if something else came. Where a vendor states
nothing and the stack file neither, the log names what came, so that it can be compared later.
"""

from __future__ import annotations

_CONNECT_S, _TRY_S = 30, 600
_PAUSES_S = (5, 10, 20, 30, 0)


def checked(address: str, file: str, sums: tuple[str, ...]) -> str:
    """Return the shell that downloads a file and compares its sha256.

    Args:
        address: where it is, as a word of the shell.
        file: where to write it, as a word of the shell.
        sums: the sha256 that it may have; none compares nothing.
    """
    return f"""{_fetched(address, file)}
sum=$(sha256sum < {file})
{_compared("sha256", address, "${sum%% *}", sums)}"""


def signing_key(address: str, file: str, fingerprint: str) -> str:
    """Return the shell that downloads a file with one OpenPGP key and compares the fingerprint of its primary key.

    Args:
        address: where it is, as a word of the shell.
        file: where to write it, as a word of the shell.
        fingerprint: 40 hexadecimal digits; empty compares nothing, but it must be one key.
    """
    return f"""{_fetched(address, file)}
key=$(gpg --batch --with-colons --show-keys {file} | awk -F: '$1 == "fpr" && last == "pub" {{ print $10 }} {{ last = $1 }}')
case $key in *[!0-9A-F]* | '') echo "busbar: there is not one key at" {address}; exit 1 ;; esac
{_compared("fingerprint", address, "$key", (fingerprint,) if fingerprint else ())}"""


def _fetched(address: str, file: str) -> str:
    """Return the shell that tries several times, also before names resolve; curl itself repeats only what a server answers."""
    pauses, limits = " ".join(map(str, _PAUSES_S)), f"--connect-timeout {_CONNECT_S} --max-time {_TRY_S}"
    return f"for pause in {pauses}; do ! curl -fsSL {limits} -o {file} {address} || break; sleep $pause; done"


def _compared(what: str, address: str, found: str, known: tuple[str, ...]) -> str:
    if not known:
        return f'echo "busbar: {what} {found} was compared with nothing, of" {address}'
    return f"""case {found} in
  {" | ".join(known)}) ;;
  *)
    echo "busbar: {what} {found} is not {" or ".join(known)}, of" {address}
    exit 1
    ;;
esac"""
