/*
 * Proofs of a shared key in the connect exchange. A client and a server have the key; whoever is between them has not, is
 * the network, and gives either end whatever he has seen or made up, in any order, as often as he likes: he replays,
 * reflects, holds back, lets other nonces through. A proof is a value that he can only copy: it says of which nonce,
 * of which attempt and from which end it is.
 *
 * The rules: the server accepts what somebody with the key asked for, under a nonce of one of the last epochs, and each
 * proof once; the client goes on with a server that showed the proof for this very request. That whoever is between
 * passes on what both say is no break of them (docs/security.md). With -DBUG a proof does not say from which end it is:
 * the client takes its own proof for that of a server.
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
bool known[PROOFS];                       /* what went over the wire */
bool asked[PROOFS];                       /* the client made this proof */
bool shown[PROOFS];                       /* the server made this one */
bool accepted[PROOFS];
byte epoch = 1;                           /* of the server; a nonce is the epoch in which it was made */
byte attempt = 0;                         /* of the client, and its proof; all may see them */

active proctype Server() {
  byte number, proof, nonce;
  bool remembered[PROOFS];
end:
  do
  :: d_step { to_server?number, proof ->
       nonce = epoch;
       do
       :: nonce == 0 || nonce + 1 < epoch -> nonce = 0; break  /* good in its epoch and the next one */
       :: else ->
            if
            :: proof == OF_CLIENT(nonce, number) && !remembered[proof] -> break
            :: else -> nonce = nonce - 1
            fi
       od;
       if
       :: nonce != 0 ->
            assert(asked[proof]);      /* somebody without the key comes in */
            assert(!accepted[proof]);  /* somebody comes in with what was said before */
            remembered[proof] = true;
            accepted[proof] = true;
            proof = OF_SERVER(nonce, number);
            shown[proof] = true;
            known[proof] = true
       :: else -> skip                 /* a challenge, which says no more than the epoch */
       fi;
       nonce = 0; number = 0; proof = 0 }
  /* Time passes. What is remembered of epochs that are over is not needed any more. */
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
          /* It goes on with one that has no key, or that answers something else. */
          assert(shown[answer]);
          break
     :: good -> break  /* key_refused: this end leaves */
     :: !good -> nonce = answer
     fi
  :: attempt == ATTEMPTS - 1 -> break
  od
}

active proctype Attacker() {
  byte number, proof, nonce;
end:
  do
  :: /* A request of any attempt, with any proof that he has seen, or none, or one that he makes up. */
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
