"""The search for what makes a fabric slow. Python 3.6, standard library only, because it runs on the head node."""
