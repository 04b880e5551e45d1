"""A text for `python3 -IS -` on another machine that has this package in it; nothing stays there when it ends."""

import base64

#: Python reads modules from files only, so the package is one while the text runs.
_TEXT = """import base64, os, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "scheduler.pyz")
    with open(path, "wb") as target:
        target.write(base64.b64decode({packed!r}))
    sys.path.insert(0, path)
    from {package} import {module}
    {module}.{call}
"""


def text(packed: bytes, module: str, call: str) -> bytes:
    """Return a text that makes one call in a module.

    Args:
        packed: `scheduler.programs.archive()`.
        module: the module's whole name.
        call: a function of it and its arguments.
    """
    package, _, name = module.rpartition(".")
    words = {"packed": base64.b64encode(packed).decode(), "package": package, "module": name, "call": call}
    return _TEXT.format(**words).encode()
