"""Run one Pulumi program in this process, as Pulumi's own executor does; the exit code tells the language host the outcome.

Exit codes: 0 means done; 32 means failed, and the error has been shown; at any other code, the language host reports a failure.
This process starts no other process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import runpy
import signal
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pulumi
import pulumi.runtime

EXIT_ALREADY_TOLD = 32
EXIT_FAILED = 1


def user_traceback(error: BaseException, program: Path) -> str:
    """Return the traceback of `error` without the frames above the user's own program."""
    main = program / "__main__.py" if program.is_dir() else program
    frames = traceback.extract_tb(error.__traceback__)
    for index, frame in enumerate(frames):
        if Path(frame.filename).resolve() == main.resolve():
            return "".join(traceback.format_exception(error, limit=-(len(frames) - index)))
    return "".join(traceback.format_exception(error))


def run(program: Path) -> None:
    """Run a file, or a folder with a __main__.py, as __main__."""
    if program.is_dir() and not (program / "__main__.py").is_file():
        pulumi.log.error(f"unable to find main python program `__main__.py` in `{program}`")
        sys.exit(EXIT_ALREADY_TOLD)
    runpy.run_path(str(program), run_name="__main__")


def main() -> int:
    """Configure the runtime from the plan given as JSON in the first argument, run the program, return the exit code."""
    plan = json.loads(sys.argv[1])
    program = Path(plan["program"]).absolute()
    pulumi.runtime.set_all_config(pulumi.runtime.get_config_env(), pulumi.runtime.get_config_secret_keys_env())
    names = ("project", "stack", "monitor", "engine", "parallel", "dry_run", "organization", "root_directory")
    pulumi.runtime.configure(pulumi.runtime.Settings(**{name: plan[name] for name in names}))
    if not plan["debug"]:
        # The SDK sends the engine hundreds of debug messages, which the engine drops. They cost an eighth of a preview's time.
        pulumi.log.debug = lambda *_words, **_more: None
    sys.argv = [str(program), *plan["args"]]
    os.chdir(plan["pwd"])
    # When a resource fails, some futures are never awaited, by design; asyncio would report each of them.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    executor = ThreadPoolExecutor(max_workers=max(plan["parallel"], 1) * 4)
    loop.set_default_executor(executor)
    try:
        loop.run_until_complete(pulumi.runtime.run_in_stack(lambda: run(program)))
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
        return EXIT_FAILED
    except Exception as error:  # noqa: BLE001 - whatever a program raises is reported to its author
        pulumi.log.error("Program failed with an unhandled exception:\n" + user_traceback(error, program))
        return EXIT_ALREADY_TOLD
    finally:
        executor.shutdown(wait=True)
        loop.close()
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        # The engine itself reports that it stopped the update; a traceback here would look like a bug.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os._exit(EXIT_ALREADY_TOLD)
