"""The same way to a verdict by busbar, an Ansible playbook and an ssh loop, timed side by side."""
