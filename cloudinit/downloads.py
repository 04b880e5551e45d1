"""Downloads that run or are trusted as root: their sha256, or the fingerprint of a signing key, is compared before any use.

Steps call functions of POSIX shell, which a first boot has once, because user-data is short. They end the step, and with it the
boot, if something else came. Where neither the vendor nor the stack file states anything, the log names what came, so that it
can be compared later.
"""

from __future__ import annotations

#: Where they lie, as nobody but root can log in before the end of a first boot.
FOLDER = "/var/tmp"  # noqa: S108
_CONNECT_S, _TRY_S = 30, 600
_PAUSES_S = (5, 10, 20, 30, 0)
#: curl itself repeats only what a server answers, and names may not resolve yet.
FUNCTIONS = f"""download() {{
  rm -f "$2"
  for pause in {" ".join(map(str, _PAUSES_S))}; do
    ! curl -fsSL --connect-timeout {_CONNECT_S} --max-time {_TRY_S} -o "$2" "$1" || break
    sleep $pause
  done
  [ -e "$2" ]
}}
compare() {{
  what=$1 came=$2 from=$3
  shift 4
  if [ $# = 0 ]; then
    echo "busbar: $what $came was compared with nothing, of $from"
    return
  fi
  for known; do [ "$came" != "$known" ] || return 0; done
  echo "busbar: $what $came is not $(echo "$*" | sed 's/ / or /g'), of $from"
  exit 1
}}
checked_file() {{
  download "$1" "$2"
  compare sha256 "$(sha256sum < "$2" | cut -d ' ' -f 1)" "$@"
}}
signing_key() {{
  download "$1" "$2"
  key=$(gpg --batch --with-colons --show-keys "$2" | awk -F: '$1 == "fpr" && last == "pub" {{ print $10 }} {{ last = $1 }}')
  case $key in *[!0-9A-F]* | '') echo "busbar: there is not one key at $1"; exit 1 ;; esac
  compare fingerprint "$key" "$@"
}}
"""


def checked(address: str, file: str, sums: tuple[str, ...]) -> str:
    """Return the shell that downloads a file and compares its sha256.

    Args:
        address: where it is, as a word of the shell.
        file: where to write it, as a word of the shell.
        sums: the sha256 that it may have; none compares nothing.
    """
    return " ".join(["checked_file", address, file, *sums])


def signing_key(address: str, file: str, fingerprint: str) -> str:
    """Return the shell that downloads a file with one OpenPGP key and compares the fingerprint of its primary key.

    Args:
        address: where it is, as a word of the shell.
        file: where to write it, as a word of the shell.
        fingerprint: 40 hexadecimal digits; empty compares nothing, but it must be one key.
    """
    return " ".join(["signing_key", address, file, *([fingerprint] if fingerprint else [])])


def functions(text: str) -> str:
    """Return the functions if `text` calls one of them."""
    return FUNCTIONS if "checked_file " in text or "signing_key " in text else ""
