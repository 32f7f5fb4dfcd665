/*
 * Connecting a path with a reconnect counter. A client makes CONS connections one after the other. It may abandon an
 * attempt at any time and starts the next one with a higher counter. Connect requests are datagrams: each arrives
 * once, late or never, in any order. The server must never combine connections of two attempts in one path.
 *
 * Rule: requests with an equal counter belong to the same attempt. A newer counter closes the old incarnation and is
 * rejected with "busy", so the client retries. An older counter is rejected. With -DBUG the server does not compare
 * the counter, like the kernel server.
 */
#define CONS 2
#define ATTEMPTS 3
#define AT(attempt, con) ((attempt) * CONS + (con))

bool request[(ATTEMPTS + 1) * CONS];  /* in flight to the server */
bool accepted[(ATTEMPTS + 1) * CONS]; /* in flight to the client */
bool refused[(ATTEMPTS + 1) * CONS];
bool broken[(ATTEMPTS + 1) * CONS];   /* abandoned by the client; the server has not noticed */
bool info;                            /* INFO_REQ of the current attempt was sent */

byte attempt = 0;    /* client: current attempt */
byte connected = 0;  /* client: accepted connections of the current attempt */
bool client_up = false;

byte held[CONS];     /* server: attempt of each connection, 0: none */
byte counter = 0;    /* server: counter of the path, 0: no path */
bool closing = false;
bool server_up = false;

inline give_up() {
  for (i : 0 .. CONS - 1) {
    broken[AT(attempt, i)] = true;
    accepted[AT(attempt, i)] = false;
    refused[AT(attempt, i)] = false;
  }
  info = false;
  client_up = false;
  connected = 0;
}

inline begin_attempt() {
  attempt++;
  request[AT(attempt, 0)] = true;
}

active proctype Client() {
  byte i;
  d_step { begin_attempt(); }
  do
  :: d_step { connected < CONS && accepted[AT(attempt, connected)] ->
       accepted[AT(attempt, connected)] = false;
       connected++;
       if
       :: connected < CONS -> request[AT(attempt, connected)] = true
       :: else -> info = true
       fi }
  :: d_step { connected < CONS && refused[AT(attempt, connected)] && attempt < ATTEMPTS ->
       give_up(); begin_attempt() }
  :: d_step { connected == CONS && server_up && !client_up -> client_up = true }
  /* An error, a timeout, or an operator ends the attempt. */
  :: d_step { attempt < ATTEMPTS -> give_up(); begin_attempt() }
  :: attempt == ATTEMPTS && (client_up || refused[AT(attempt, connected % CONS)]) -> break
  od
}

inline drop_path() {
  for (j : 0 .. CONS - 1) { held[j] = 0 }
  counter = 0;
  closing = false;
  server_up = false;
}

inline accept_it(a, c) {
  held[c] = a;
  if :: counter == 0 -> counter = a :: else -> skip fi;
  if :: !broken[AT(a, c)] -> accepted[AT(a, c)] = true :: else -> skip fi
}

inline refuse_it(a, c) {
  if :: !broken[AT(a, c)] -> refused[AT(a, c)] = true :: else -> skip fi
}

inline judge(a, c) {
  request[AT(a, c)] = false;
  if
  :: closing -> refuse_it(a, c)
#ifdef BUG
  :: !closing && held[c] == 0 -> accept_it(a, c)
  :: !closing && held[c] != 0 -> refuse_it(a, c)
#else
  :: !closing && counter != 0 && a < counter -> refuse_it(a, c)
  :: !closing && counter != 0 && a > counter -> closing = true; refuse_it(a, c)
  :: !closing && (counter == 0 || a == counter) && held[c] == 0 -> accept_it(a, c)
  :: !closing && a == counter && held[c] != 0 -> refuse_it(a, c)
#endif
  fi
}

active proctype Server() {
  byte a, c, j;
end:
  do
  :: atomic {
       select (a : 1 .. ATTEMPTS); select (c : 0 .. CONS - 1);
       if
       :: request[AT(a, c)] -> d_step { judge(a, c) }
       :: request[AT(a, c)] -> request[AT(a, c)] = false /* lost */
       :: held[c] == a && broken[AT(a, c)] && !closing -> closing = true
       :: else -> skip
       fi;
       /* The property that this model checks. */
       assert(held[0] == 0 || held[1] == 0 || held[0] == held[1]) }
  :: d_step { closing -> drop_path() }
  :: d_step { info && held[0] == attempt && !server_up && !closing ->
       info = false;
       if :: held[1] != 0 -> server_up = true :: else -> skip fi }
  od
}
