"""Checks downloads that run as root, or that root trusts: compares a sha256, or a signing key's fingerprint, before use.

Steps call POSIX shell functions, which a first boot defines only once, because user-data must be short. A download that
does not match fails the step and with it the boot. If neither the vendor nor the stack file sets a checksum, the log records
the checksum of the downloaded file, so that a person can compare it later.
"""

from __future__ import annotations

#: Folder of the downloads. Every user may write to it. This is safe: until first boot has finished, only the login user can log
#: in.
FOLDER = "/var/tmp"  # noqa: S108
_CONNECT_S, _TRY_S = 30, 600
_PAUSES_S = (5, 10, 20, 30, 0)
#: `download` repeats curl after every error, because the network may not work yet at boot. curl's own --retry does not repeat
#: after some errors, such as a refused connection.
FUNCTIONS = f"""download() {{
  rm -f "$2"
  for pause in {" ".join(map(str, _PAUSES_S))}; do
    ! curl -fsSL --connect-timeout {_CONNECT_S} --max-time {_TRY_S} -o "$2" "$1" || return 0
    sleep $pause
  done
  return 1
}}
compare() {{
  what=$1 came=$2 from=$3
  shift 4
  if [ $# = 0 ]; then
    echo "busbar: $what $came is unchecked: no $what is given for $from"
    return
  fi
  for known; do [ "$came" != "$known" ] || return 0; done
  echo "busbar: $what $came is not $(echo "$*" | sed 's/ / or /g') (from $from)"
  exit 1
}}
checked_file() {{
  download "$1" "$2"
  compare sha256 "$(sha256sum < "$2" | cut -d ' ' -f 1)" "$@"
}}
signing_key() {{
  download "$1" "$2"
  key=$(gpg --batch --with-colons --show-keys "$2" | awk -F: '$1 == "fpr" && last == "pub" {{ print $10 }} {{ last = $1 }}')
  case $key in *[!0-9A-F]* | '') echo "busbar: $1 does not contain exactly one key"; exit 1 ;; esac
  compare fingerprint "$key" "$@"
}}
"""


def checked(address: str, file: str, sums: tuple[str, ...]) -> str:
    """Return the shell command that downloads a file and compares its sha256.

    Args:
        address: the file's URL, as one word of the command.
        file: path at which the file is written, as one word of the command.
        sums: the sha256 checksums that the file may have; if there are none, nothing is compared.
    """
    return " ".join(["checked_file", address, file, *sums])


def signing_key(address: str, file: str, fingerprint: str) -> str:
    """Return the shell command that downloads a file with one OpenPGP key and compares the primary key's fingerprint.

    Args:
        address: the file's URL, as one word of the command.
        file: path at which the file is written, as one word of the command.
        fingerprint: 40 hexadecimal digits; if empty, nothing is compared, but the file must contain exactly one key.
    """
    return " ".join(["signing_key", address, file, *([fingerprint] if fingerprint else [])])


def functions(text: str) -> str:
    """Return the shell functions if `text` calls one of them, otherwise an empty text."""
    return FUNCTIONS if "checked_file " in text or "signing_key " in text else ""
