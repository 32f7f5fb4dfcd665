# title: each command of urtrs at the server that affects a client has the effect described in docs/management.md
# only: server=urtrs paths=2
# limit: 600
# runs: tools/urtrs/urtrs
export URTRS_RUNTIME_DIR=$RUN
urtrs=$LAB_BUILD/tools/urtrs/urtrs
server_start
client_map 0
name=$SESSION
[ "$CLIENT" = kernel ] || name+=-0
does() { "$urtrs" "$@" >"$RUN/urtrs.log" 2>&1 || { cat "$RUN/urtrs.log"; fail "urtrs $*"; }; note "urtrs $*: done"; }
refuses() {  # refuses WORDS COMMAND...: checks that the command fails with an error that contains WORDS.
  local words=$1
  shift
  ! "$urtrs" "$@" >"$RUN/urtrs.log" 2>&1 || fail "urtrs $*: not refused"
  grep -q -e "$words" "$RUN/urtrs.log" || { cat "$RUN/urtrs.log"; fail "urtrs $*: says something else"; }
  note "urtrs $*: refused"
}
reads() { timeout 60 dd if="$(device 0)" of=/dev/null bs=4k count=1 iflag=direct status=none 2>>"$RUN/reads.log"; }
# Waits until the device works again. The kernel's client reopens its device only after it has lost all paths
# and reconnected one; our client reopens it with the next IO.
back() {
  if [ "$CLIENT" = kernel ]; then
    ! reads || fail "the kernel's client opened the device again"
    does session disconnect "$name"
    wait_for 60 "the paths are lost" some_path_lost
    wait_for 120 "all paths connected" all_paths
  fi
  wait_for 60 "the device is back" reads
}

load_start 0 --rate_iops=25
# Commands that only read, or that change something unrelated to the client.
does session list
does stats
does debug dump
does top --count=1
does trace start "$RUN/now.rtrc"
does trace stop
does reset "$name"
does log debug
does log info
does export add more=mem:1M
does export remove more
does reload
load_alive
# IO continues over the other path.
does path disconnect "$name" 0
wait_for 60 "a path is lost" some_path_lost
wait_for 120 "all paths connected" all_paths
load_stop
does session disconnect "$name"
wait_for 60 "the paths are lost" some_path_lost
wait_for 120 "all paths connected" all_paths
wait_for 60 "the device is back" reads

if [ "$CLIENT" = kernel ]; then
  refuses 'uses no extension of urtrs' device close loop0 "$name"
  refuses 'uses no extension of urtrs' device close loop0
  reads || fail "a refused command took the device away"
  does device close loop0 "$name" force
else
  does device close loop0 "$name"
fi
back
refuses 'is open' export remove loop0
reads || fail "a refused command took the export away"
does export remove loop0 force
[ "$CLIENT" = urtrs ] || ! reads || fail "the export is still there"
does export add loop0=/dev/loop0
back
verify 0 --rw=randwrite --bs=16k --size=2M --iodepth=8
client_unmap 0
