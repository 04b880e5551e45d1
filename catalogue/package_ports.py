"""Ports on which first boot downloads packages, by the image's package manager."""

from __future__ import annotations

_HTTPS = {443: "HTTPS"}
#: Port -> protocol in words. Vendors' repositories use https. Ubuntu's cloud images fetch from Ubuntu's
#: archive by http (cloud-init, cc_apt_configure.py).
PORTS: dict[str, dict[int, str]] = {"apt": {80: "HTTP", **_HTTPS}, "dnf": _HTTPS, "yum": _HTTPS}
