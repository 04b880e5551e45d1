"""The stand-in for AWS: its provider plugin refuses what AWS would refuse and boots the machines that AWS would boot."""
