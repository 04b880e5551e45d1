"""What is kept beside the stack: history, certificate, and who checks one."""
