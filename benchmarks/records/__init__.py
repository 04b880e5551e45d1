"""Records beside the stack's state: history and certificate, and the program that verifies a certificate."""
