"""What gives a machine of the Slurm tests folders of its own: shell, run by tests/elastic_head.py and tests/users_head.py."""

#: Over the folders of the system as it was before the test (/run/pristine), not over the controller's: its folders are an
#: overlay already, this system's root may be another, and the kernel stacks two at most.
OWN_FOLDERS = r"""
mount -t tmpfs -o mode=755 tmpfs /mnt
for folder in /etc /usr/local /var/lib /var/log; do
  mkdir -p /mnt/own$folder/upper /mnt/own$folder/work
  mount -t overlay -o lowerdir=/run/pristine$folder,upperdir=/mnt/own$folder/upper,workdir=/mnt/own$folder/work overlay $folder
done
"""
