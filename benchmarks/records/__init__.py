"""Records beside the stack's state: history, certificate, and the program that verifies one."""
