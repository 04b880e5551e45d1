"""The stand-in for OCI: a provider plugin that refuses what OCI would refuse and boots what it would boot."""
