"""Shell that gives a machine of the Slurm tests its own folders; tests/elastic_head.py and tests/users_head.py run it."""

#: Overlays on the system's folders as they were before the test (/run/pristine), not on the controller's: the controller's are
#: an overlay already, this system's root may be another overlay, and the kernel stacks at most two.
OWN_FOLDERS = r"""
mount -t tmpfs -o mode=755 tmpfs /mnt
for folder in /etc /usr/local /var/lib /var/log; do
  mkdir -p /mnt/own$folder/upper /mnt/own$folder/work
  mount -t overlay -o lowerdir=/run/pristine$folder,upperdir=/mnt/own$folder/upper,workdir=/mnt/own$folder/work overlay $folder
done
"""
