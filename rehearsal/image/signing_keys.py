"""Keys that replace the keys of the vendors' package repositories.

`rehearsal.plugin.openpgp` makes these keys and signs with them. A rehearsal's stack file has the fingerprints of these keys
where a real stack file has the fingerprints of the vendors' keys.
"""

from __future__ import annotations

UBUNTU_FINGERPRINT = "DDCB4842135C143FB65863C2E23DB61502182153"
UBUNTU = """-----BEGIN PGP PUBLIC KEY BLOCK-----

xjMEZZIAgBYJKwYBBAHaRw8BAQdAShm4eA6dUgyL4Dq3sIpBaSRP/uMgVEX/jC8p
bkKGxZ7NJ1JlaGVhcnNlZCBVYnVudHUgYXJjaGl2ZSA8bm9uZUBpbnZhbGlkPsJ4
BBMWCAAgFiEE3ctIQhNcFD+2WGPC4j22FQIYIVMFAmWSAIACGwMACgkQ4j22FQIY
IVNtnwEA4sTButD1+dpUBYn/1KBAsoGMl7tIoRr8fb8+z5YG1QMBAI1v1H0spLVn
Ll0y8nhhqIuHB08/K9rT137JTbpqRi4I
=pzx8
-----END PGP PUBLIC KEY BLOCK-----
"""
FSX_FINGERPRINT = "1ACD1CD6294946D6925A2410328B262A61E8056E"
FSX = """-----BEGIN PGP PUBLIC KEY BLOCK-----

xjMEZZIAgBYJKwYBBAHaRw8BAQdAvJ/V1f3w4rwDLuWcZMxNv9EKI4cYHkOWWeR1
6p5cEtPNJ1JlaGVhcnNlZCBGU3ggcmVwb3NpdG9yeSA8bm9uZUBpbnZhbGlkPsJ4
BBMWCAAgFiEEGs0c1ilJRtaSWiQQMosmKmHoBW4FAmWSAIACGwMACgkQMosmKmHo
BW5xsAEAjUOrhoppZHRBsjcgpybQtjBorKcR0AjR3ao2tCtQs8gBAO1kElBisAMT
dvvrWHQjLUmv0GSv7Yog5vGzRGiiIxwF
=uQO6
-----END PGP PUBLIC KEY BLOCK-----
"""
NVIDIA_FINGERPRINT = "5257CB6F423E0915BC0F49EB8E3049A0F7BF5AA6"
NVIDIA = """-----BEGIN PGP PUBLIC KEY BLOCK-----

xjMEZZIAgBYJKwYBBAHaRw8BAQdA87GVS6Bk6/CMZyRHd0T6tvmr7FLconPc4kV5
i38IrfbNKlJlaGVhcnNlZCBOVklESUEgcmVwb3NpdG9yeSA8bm9uZUBpbnZhbGlk
PsJ4BBMWCAAgFiEEUlfLb0I+CRW8D0nrjjBJoPe/WqYFAmWSAIACGwMACgkQjjBJ
oPe/WqadEgEApEtiflSbMV+rXRIqEqn7hLsuQ76PooLzr7yUrKdJAVwBAKZ6noLm
amEGUvlzu1MpkbtLV3+wSghopgwUes0/rHgD
=Lz3l
-----END PGP PUBLIC KEY BLOCK-----
"""
#: Key and fingerprint, by the name of the key's owner.
OWNERS = {
    "Ubuntu archive": (UBUNTU, UBUNTU_FINGERPRINT),
    "FSx repository": (FSX, FSX_FINGERPRINT),
    "NVIDIA repository": (NVIDIA, NVIDIA_FINGERPRINT),
}
