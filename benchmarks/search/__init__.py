"""The search for what makes a fabric slow; standard library of Python 3.6, as it runs on the head node."""
