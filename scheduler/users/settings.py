"""Settings of the command `cluster`, which the set-up writes on the controller."""

import json
from typing import NamedTuple

from scheduler.users.refusal import RefusalError

PATH = "/etc/busbar/users.json"


class Settings(NamedTuple):
    """Settings of the command.

    Attributes:
        home: the shared folder that contains the home folders.
        accounting: the name of the cluster in Slurm's database; empty without a database.
        mounted: whether `home` is on another machine, so that it must be mounted before anything is written to it.
    """

    home: str
    accounting: str = ""
    mounted: bool = False

    @property
    def snapshot(self) -> str:
        """The path of the directory's copy, which is still there after the controller is lost."""
        return f"{self.home}/.busbar-users/directory.ldif"


def load(path: str = PATH) -> Settings:
    """Return the settings that the set-up wrote.

    Raises:
        RefusalError: this machine was not set up.
    """
    try:
        with open(path, encoding="utf-8") as source:
            return Settings(**json.load(source))
    except FileNotFoundError as error:
        raise RefusalError(f"this machine has no users of a cluster ({path} is missing); use the controller") from error


def text_of(its: Settings) -> str:
    """Return the text of the settings file."""
    return json.dumps(its._asdict(), sort_keys=True) + "\n"
