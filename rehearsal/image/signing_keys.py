"""Keys that stand for those of the vendors' package repositories: real OpenPGP keys, whose private halves nobody has.

They sign nothing: yum's stand-in asks for no signature, and apt-get is allowed to go without. A stack file that is rehearsed
names their fingerprints where a real one has the vendor's.
"""

from __future__ import annotations

FSX_FINGERPRINT = "7F284AF421C4422782D4BC364670B5363FE2EDA8"
FSX = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZZIAgBYJKwYBBAHaRw8BAQdAjx8Y8QXIs0ZqcNuPqRFuewNlg4BI9xfM88xB
ZiuOJ6S0J1JlaGVhcnNlZCBGU3ggcmVwb3NpdG9yeSA8bm9uZUBpbnZhbGlkPoiQ
BBMWCAA4FiEEfyhK9CHEQieC1Lw2RnC1Nj/i7agFAmWSAIACGwMFCwkIBwIGFQoJ
CAsCBBYCAwECHgECF4AACgkQRnC1Nj/i7aizdQD9EWL8y0bN0UCE+YmpKpsl78FO
qaSb/B0zKT3EfekkIdEA/3qyAQwmeelK4/3lh7WqOWEM2ZlSTAtaiszCYB2XIjgN
=kKux
-----END PGP PUBLIC KEY BLOCK-----
"""
NVIDIA_FINGERPRINT = "C4DC0529487DF7431FCEFDA6200D0EDB39D1A4F2"
NVIDIA = """-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEZZIAgBYJKwYBBAHaRw8BAQdA2vbHEuRFGZaxDvwXoZ91byAH2KOlPKXlTrrl
67zI6uK0KlJlaGVhcnNlZCBOVklESUEgcmVwb3NpdG9yeSA8bm9uZUBpbnZhbGlk
PoiQBBMWCAA4FiEExNwFKUh990Mfzv2mIA0O2znRpPIFAmWSAIACGwMFCwkIBwIG
FQoJCAsCBBYCAwECHgECF4AACgkQIA0O2znRpPJv1wD/eFVhpbAP0g9ukOv1s618
FsRRvbCFe09NlJuHbyLjra0BAMALZW+IFpiqiRzqMnCVX+wRl/O/Jad5uNvj30a6
nqIF
=WPLi
-----END PGP PUBLIC KEY BLOCK-----
"""
