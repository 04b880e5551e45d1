"""Launchers, one module each: they turn ranks as data into the arguments of a command. Python 3.6 without packages."""
