"""Ports of file systems on AWS, as first and last port of each range."""

#: FSx for Lustre user guide, "File system access control with Amazon VPC": both ways between clients and servers.
LUSTRE_PORTS = ((988, 988), (1018, 1023))
#: aws-parallelcluster:cli/src/pcluster/constants.py, FSX_PORTS: to the servers, over both protocols.
OPENZFS_PORTS = ((111, 111), (2049, 2049), (20001, 20003))
