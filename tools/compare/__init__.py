"""Times busbar, an Ansible playbook and an ssh loop side by side, from the same hosts to a verdict."""
