#!/usr/bin/env bash
# Measures a cluster in the way that tutorials show: an ssh loop on the jump host that handles one host after the other.
# Arguments: HOSTS (a file of addresses, the head node's first), SOURCE (tar), MAKE (the make command), HERE (folder on the
# nodes), COMMANDS (script), LIMIT (GB/s).
set -euo pipefail
list=$1 source=$2 make_words=$3 here=$4 commands=$5 limit=$6
mapfile -t hosts <"$list"
head=${hosts[0]}
opt=(-o StrictHostKeyChecking=accept-new -o LogLevel=ERROR)

on() { # HOST COMMAND: run a shell command on HOST
  # shellcheck disable=SC2029 # the command is complete on this side
  ssh "${opt[@]}" "$1" "$2" </dev/null
}

for host in "${hosts[@]}"; do on "$host" "cloud-init status --wait >/dev/null"; done

on "$head" "ssh-keygen -q -t ed25519 -N '' -f .ssh/id_compare; printf 'Host *\n  IdentityFile ~/.ssh/id_compare\n' >.ssh/config; chmod 600 .ssh/config"
key=$(on "$head" "cat .ssh/id_compare.pub")
for host in "${hosts[@]}"; do on "$host" "echo '$key' >>.ssh/authorized_keys"; done
for host in "${hosts[@]}"; do scp -q -p "${opt[@]}" ~/.ssh/known_hosts "$host:.ssh/known_hosts"; done
for host in "${hosts[@]}"; do scp -q -p "${opt[@]}" "$list" "$host:hostlist.txt"; done

alike() { # WHAT COMMAND: exit unless COMMAND prints the same on every host
  local kinds
  kinds=$(for host in "${hosts[@]}"; do on "$host" "$2 | sha256sum"; done | sort -u | wc -l)
  [ "$kinds" = 1 ] || { echo "the nodes differ in $1" && exit 1; }
}
alike "GPUs and driver" "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
alike "rails and link rates" "cd /sys/class/infiniband && grep . */ports/1/state */ports/1/rate"
alike MTUs "cat /sys/class/net/[er]*/mtu"
for host in "${hosts[@]}"; do
  off=$(($(on "$host" "date +%s") - $(date +%s)))
  [ "${off#-}" -le 2 ] || { echo "the clock of $host is $off s off" && exit 1; }
done

on "$head" "mkdir -p '$here/src' '$here/bin'"
scp -q -p "${opt[@]}" "$source" "$head:$here/source.tar"
on "$head" "tar -C '$here/src' -xf '$here/source.tar' && cd '$here'/src/*/ && $make_words >/dev/null && cp build/*_perf '$here/bin/'"
for host in "${hosts[@]:1}"; do
  on "$host" "mkdir -p '$here'"
  on "$head" "scp -q -pr '$here/bin' '$host:$here/'"
done

alike binaries "cd '$here/bin' && sha256sum *"

counters() { for host in "${hosts[@]}"; do on "$host" "cd /sys/class/infiniband && grep . */ports/1/counters/port_xmit_data" >"counters.$1.$host"; done; }
counters before
found=$(ssh "${opt[@]}" "$head" bash -s <"$commands")
counters after
for host in "${hosts[@]}"; do
  ! cmp -s "counters.before.$host" "counters.after.$host" || { echo "no rail of $host carried a byte" && exit 1; }
done
busbw=$(awk '$1 == "BUSBW" { print $2 }' <<<"$found")
echo "BUSBW $busbw (limit $limit)"
awk -v got="$busbw" -v limit="$limit" 'BEGIN { exit !(got >= limit) }'
