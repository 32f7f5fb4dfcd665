# title: an address by GID, which soft-RoCE does not route, is rejected with a message instead of a timeout
# only: client=urtrs paths=1
server_start
gid=$(cat /sys/class/infiniband/rxe1s/ports/1/gids/1)
code=0
timeout 60 nbdkit -f -U "$RUN/gid.socket" "$LAB_BUILD/tools/nbdkit/nbdkit-urtrs-plugin.so" "fabric=$LAB_FABRIC" \
  "path=gid:$gid" session=gid device=loop0 >"$RUN/gid.log" 2>&1 </dev/null || code=$?
cat "$RUN/gid.log"
[ $code != 124 ] || fail "it waits"
[ $code != 0 ] || fail "it says that it is connected"
grep -q "gid:$gid" "$RUN/gid.log" || fail "it does not say which address"
# The server still accepts clients.
client_map 0
client_unmap 0
