"""Ports of OCI's file systems."""

#: TCP ports of the port mapper, of mount and of NFS (OCI documentation, "Configuring VCN Security Rules for File Storage").
NFS_TCP_PORTS = ((111, 111), (2048, 2050))
