"""The stand-in for OCI: its provider plugin refuses what OCI would refuse and boots the machines that OCI would boot."""
