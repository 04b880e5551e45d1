"""Makes a program that contains this package, for `python3 -IS -` on another machine; the program leaves no files there."""

import base64

#: Python imports modules only from files, so the package is a temporary file while the program runs.
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
    """Return a program that makes one call to a module.

    Args:
        packed: `scheduler.programs.archive()`.
        module: the module's full name.
        call: the call, a function of that module with its arguments.
    """
    package, _, name = module.rpartition(".")
    words = {"packed": base64.b64encode(packed).decode(), "package": package, "module": name, "call": call}
    return _TEXT.format(**words).encode()
