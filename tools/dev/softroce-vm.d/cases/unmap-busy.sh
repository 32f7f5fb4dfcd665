# title: unmapping a device in use is rejected; with force it succeeds while IO is in flight
# only: client=kernel
server_start
client_map 0
exec 7<"$(device 0)"
! client_unmap 0 2>"$RUN/unmap.log" || fail "unmapped although open"
exec 7<&-
load_start 0
sleep 1
client_unmap 0 force
load_fails
client_map 0
verify 0 --rw=randwrite --bs=4k --size=1M --iodepth=4
client_unmap 0
