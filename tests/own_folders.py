"""Shell that gives a machine of the Slurm tests its own folders; tests/elastic_head.py and tests/users_head.py run it."""

#: Mounts an overlay on each folder that the loop names. The lower layer is the system's folder as it was before the test
#: (/run/pristine). The controller's folder cannot be the lower layer: it is an overlay already, this system's root may be an
#: overlay, too, and the kernel stacks at most two overlays.
OWN_FOLDERS = r"""
mount -t tmpfs -o mode=755 tmpfs /mnt
for folder in /etc /usr/local /var/lib /var/log; do
  mkdir -p /mnt/own$folder/upper /mnt/own$folder/work
  mount -t overlay -o lowerdir=/run/pristine$folder,upperdir=/mnt/own$folder/upper,workdir=/mnt/own$folder/work overlay $folder
done
"""
