# title: a server that requires a key: a client with the key reads and writes; a wrong key and Linux are rejected
# only: server=urtrs invalidate=on
# limit: 300
printf 'web1:%064d\n' 1 >"$RUN/keys"
printf 'web1:%064d\n' 2 >"$RUN/wrong"
chmod 600 "$RUN/keys" "$RUN/wrong"
URTRSD_OPTIONS="--auth-keys $RUN/keys"
server_start
log=$RUN/urtrsd1.log
case $CLIENT in
  kernel)
    client_load_modules
    request="sessname=$SESSION device_path=${DISK_KIND}0 access_mode=rw"
    for n in $(seq "$PATHS"); do request+=" path=ip:$(address "$n" client)@ip:$(address "$n" server)"; done
    start=$(date +%s)
    ! echo "$request" >/sys/class/rnbd-client/ctl/map_device 2>"$RUN/map.log" || fail "Linux mapped a device without a key"
    cat "$RUN/map.log"
    # The kernel's client times out after 30 s if the server does not reject it.
    [ $(($(date +%s) - start)) -lt 25 ] || fail "Linux was not told"
    grep -q 'reason=key_refused\|reason=challenged' "$log" || { cat "$log"; fail "the log does not say why"; }
    # With "allow", a client without a key may connect.
    server_stop
    URTRSD_OPTIONS="--auth-keys $RUN/keys --auth allow"
    server_start
    client_map 0
    dd if="$LAB_NOISE" of="$(device 0)" bs=64k count=16 oflag=direct status=none
    client_unmap 0 ;;
  urtrs)
    PLUGIN_OPTIONS="auth_keys=$RUN/keys"
    client_map 0
    dd if="$LAB_NOISE" of="$(device 0)" bs=64k count=16 oflag=direct status=none
    cmp -n $((1 << 20)) "$LAB_NOISE" <(dd if="$(device 0)" bs=64k count=16 iflag=direct status=none) || fail "reads differ"
    client_unmap 0
    for keys in "auth_keys=$RUN/wrong" ""; do
      ! timeout 60 nbdkit -U - "$LAB_BUILD/tools/nbdkit/nbdkit-urtrs-plugin.so" "fabric=$LAB_FABRIC" \
        "path=$(address 1 client)@$(address 1 server)" "device=${DISK_KIND}0" connect_timeout=3s $keys --run true >"$RUN/refused.log" 2>&1 ||
        fail "a client with '$keys' came in"
      cat "$RUN/refused.log"
      # A client without a key must get an error code that Linux knows.
      why="Permission denied"; [ -z "$keys" ] || why="the shared key"
      grep -q "$why" "$RUN/refused.log" || fail "it is not told why"
    done ;;
esac
