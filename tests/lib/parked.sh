# shellcheck shell=bash
# parked: what tests ask of warm pools and of what waits in them. Sourced after cluster.sh, used after cluster_hearth.
#
#   api PATH [CURL-ARGS]     the API on head, as administrator
#   pool ID FILTER           of the pool, by jq;  pool_newest  its id;  pool_is_parked ID
#   pool_park ID             waits until it is parked, and says what it is when that does not come
#   shims                    how many shims run on host1 and host2;  no_shim
#   pids_named NAME          the processes of that name there
api() { cluster_in head curl -s --unix-socket "$CLUSTER/head/data/hearthd.sock" "${@:2}" "http://h/api/v1$1"; }
pool() { api "/pools?state=all" | jq -r "[.pools[] | select(.id == $1)][0] | $2"; }
pool_newest() { api "/pools?state=all" | jq -r '[.pools[].id] | max'; }
pool_is_parked() { [ "$(pool "$1" '.parked.state')" = parked ]; }
pool_park() { wait_until 40 pool_is_parked "$1" || diag "$(pool "$1" .parked)"; }
shims() { for host in host1 host2; do cluster_pids "$host"; done | while read -r pid; do tr "\0" " " <"/proc/$pid/cmdline" 2>/dev/null; echo; done | grep -c "^[^ ]*hearth-shim " || true; }
no_shim() { [ "$(shims)" = 0 ]; }
pids_named() { for host in host1 host2; do cluster_pids "$host"; done | while read -r pid; do [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$1" ] || echo "$pid"; done; }
