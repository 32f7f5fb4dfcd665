/*
 * Proofs of a shared key in the connect handshake. Client and server have the key. An attacker without the key
 * controls the network: it sends to either end any message that it has seen or invented, in any order and any number
 * of times. It can replay, reflect and drop messages and change nonces. It can copy a proof but not compute one: a
 * proof identifies its nonce, its attempt and the end that made it.
 *
 * Rules: the server accepts only requests from an owner of the key, with a nonce of the current or previous epoch, and
 * each proof once. The client continues only with a server that sent the proof for this request. An attacker that only
 * forwards the messages of both ends breaks no rule (docs/security.md). With -DBUG a proof does not identify the end
 * that made it, so the client accepts its own proof as the server's.
 */
#define EPOCHS 5
#define ATTEMPTS 3
#define NONE 0
#define MADE_UP 1
#define OF_CLIENT(nonce, attempt) (2 + ((nonce) * ATTEMPTS + (attempt)) * 2)
#ifdef BUG
#define OF_SERVER(nonce, attempt) OF_CLIENT(nonce, attempt)
#else
#define OF_SERVER(nonce, attempt) (OF_CLIENT(nonce, attempt) + 1)
#endif
#define PROOFS (2 + (EPOCHS * ATTEMPTS + ATTEMPTS) * 2)

chan to_server = [0] of { byte, byte };   /* attempt, proof: a connect request */
chan to_client = [0] of { bool, byte };   /* accepted, proof; or a challenge and its nonce */
bool known[PROOFS];                       /* proofs that were sent on the wire */
bool asked[PROOFS];                       /* the client made this proof */
bool shown[PROOFS];                       /* the server made this proof */
bool accepted[PROOFS];
byte epoch = 1;                           /* current epoch of the server; a nonce is the epoch in which it was made */
byte attempt = 0;                         /* current attempt of the client; public */

active proctype Server() {
  byte number, proof, nonce;
  bool remembered[PROOFS];
end:
  do
  :: d_step { to_server?number, proof ->
       nonce = epoch;
       do
       :: nonce == 0 || nonce + 1 < epoch -> nonce = 0; break  /* valid in its epoch and the next one */
       :: else ->
            if
            :: proof == OF_CLIENT(nonce, number) && !remembered[proof] -> break
            :: else -> nonce = nonce - 1
            fi
       od;
       if
       :: nonce != 0 ->
            assert(asked[proof]);      /* fails if a client without the key is accepted */
            assert(!accepted[proof]);  /* fails if a replayed proof is accepted */
            remembered[proof] = true;
            accepted[proof] = true;
            proof = OF_SERVER(nonce, number);
            shown[proof] = true;
            known[proof] = true
       :: else -> skip                 /* a challenge, which contains only the epoch */
       fi;
       nonce = 0; number = 0; proof = 0 }
  /* The next epoch starts. Proofs of expired epochs need not be remembered any more. */
  :: d_step { epoch < EPOCHS - 1 ->
       epoch = epoch + 1;
       number = 1;
       do
       :: number < ATTEMPTS && epoch > 2 -> remembered[OF_CLIENT(epoch - 2, number)] = false; number = number + 1
       :: else -> break
       od;
       number = 0 }
  od
}

active proctype Client() {
  byte proof, nonce, answer;
  bool good;
  do
  :: d_step { attempt < ATTEMPTS - 1 ->
       attempt = attempt + 1;
       proof = NONE;
       if
       :: nonce != 0 ->
            proof = OF_CLIENT(nonce, attempt);
            asked[proof] = true;
            known[proof] = true
       :: else -> skip
       fi }
     to_client?good, answer;
     if
     :: good && nonce != 0 && answer == OF_SERVER(nonce, attempt) ->
          /* Fails if the server has no key, or answered another request. */
          assert(shown[answer]);
          break
     :: good -> break  /* key_refused: the client disconnects */
     :: !good -> nonce = answer
     fi
  :: attempt == ATTEMPTS - 1 -> break
  od
}

active proctype Attacker() {
  byte number, proof, nonce;
end:
  do
  :: /* A request of any attempt, with any proof that was seen, with an invented one, or without. */
     select(number : 1 .. ATTEMPTS - 1);
     select(proof : 0 .. PROOFS - 1);
     if
     :: proof == NONE || proof == MADE_UP || known[proof] -> to_server!number, proof
     :: else -> skip
     fi;
     number = 0; proof = 0
  :: select(proof : 1 .. PROOFS - 1);
     if
     :: proof == MADE_UP || known[proof] -> to_client!true, proof
     :: else -> skip
     fi;
     proof = 0
  :: select(nonce : 1 .. EPOCHS - 1);
     to_client!false, nonce;
     nonce = 0
  od
}
