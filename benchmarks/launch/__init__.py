"""How ranks start: one module for each launcher, from ranks as data to the words of a command. Python 3.6 without packages."""
