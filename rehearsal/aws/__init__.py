"""The stand-in for AWS: a provider plugin that refuses what AWS would refuse and boots what it would boot."""
