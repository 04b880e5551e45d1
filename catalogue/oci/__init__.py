"""What OCI offers: shapes, operating-system images, file systems."""
