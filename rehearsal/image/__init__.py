"""What stands in for the vendor's images on rehearsed hosts; README.md lists every part that is not real."""
