"""The stand-in for Amazon's cloud: a provider plugin that refuses what the vendor would refuse and acts through the rest."""
